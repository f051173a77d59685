//! Groups, transactions, and the frameworks that stand on both.

mod connect;
mod coordinators;
mod exactly_once;
mod groups;
mod share_dead_letters;
mod share_faults;
mod share_full_disk;
mod share_groups;
mod share_tools;
mod share_topics;
mod streams;
mod streams_groups;
mod streams_tools;
mod transactions;
