//! `levada files`: a directory over HTTP.

mod files;
mod files_clients;
mod files_hostile;
mod files_machine;
mod files_tls;
mod files_tools;
