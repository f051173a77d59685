//! Data directories: crashes, failing disks, compaction, cold reads, and directories that change
//! hands.

mod cold;
mod compaction;
mod crash;
mod disk;
mod log_dirs;
mod lost_files;
mod migration;
mod remote_metadata;
mod remote_store;
mod storage;
mod storage_check;
mod storage_faults;
mod tiered_chaos;
mod tiered_faults;
mod tiered_reads;
mod tiered_recovery;
mod tiered_storage;
mod zero_copy;
