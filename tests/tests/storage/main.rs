//! Data directories: crashes, failing disks, compaction, cold reads, and directories that change
//! hands.

mod cold;
mod compaction;
mod crash;
mod disk;
mod log_dirs;
mod lost_files;
mod migration;
mod storage;
mod storage_check;
mod storage_faults;
mod zero_copy;
