//! Every metric of `/metrics`: name, type, labels, help, and the JMX name of the Kafka metric that
//! it corresponds to. The page `docs/operating/monitoring.md` is made from this list.
//!
//! Catalogue: one entry per metric.

use prometheus_client::metrics::MetricType;

/// A metric.
#[derive(Debug)]
pub(super) struct Family {
    /// Name without the suffix of its type (`_total`, `_info`).
    pub(super) name: &'static str,
    /// Type of its series.
    pub(super) kind: MetricType,
    /// Names of the labels of each series.
    pub(super) labels: &'static [&'static str],
    /// Help text.
    pub(super) help: &'static str,
    /// Kafka's corresponding metric; empty if there is none.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the documentation shows it"))]
    pub(super) jmx: &'static str,
}

macro_rules! families {
    ($($constant:ident $kind:ident $name:literal [$($label:literal),*] $help:literal $jmx:literal;)*) => {
        $(pub(super) const $constant: &Family = &Family {
            name: $name,
            kind: MetricType::$kind,
            labels: &[$($label),*],
            help: $help,
            jmx: $jmx,
        };)*

        /// All metric families.
        #[cfg(test)]
        pub(super) const ALL: &[&Family] = &[$($constant),*];
    };
}

families! {
    BUILD Info "levada_build" ["version"] "Version of the running program" "kafka.server:type=app-info,id=*";
    // Requests.
    REQUESTS Counter "levada_requests" ["api"] "Requests received" "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*";
    REQUEST_BYTES Counter "levada_request_bytes" ["api"] "Bytes of requests received, headers included" "kafka.network:type=RequestMetrics,name=RequestBytes,request=*";
    RESPONSE_BYTES Counter "levada_response_bytes" ["api"] "Bytes of responses sent, headers included" "kafka.network:type=RequestMetrics,name=ResponseBytes,request=*";
    REQUEST_ERRORS Counter "levada_request_errors" ["api", "error"] "Error codes in responses, one for each entry of a response; NONE is success" "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=*,error=*";
    REQUEST_TOTAL Histogram "levada_request_duration_seconds" ["api"] "Time from the arrival of the request until the socket has taken the response" "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=*";
    REQUEST_LOCAL Histogram "levada_request_local_seconds" ["api"] "Time in which a thread was busy with the request" "kafka.network:type=RequestMetrics,name=LocalTimeMs,request=*";
    REQUEST_WAITING Histogram "levada_request_waiting_seconds" ["api"] "Part of the time before the response was complete in which the request waited for records, members or the disk" "kafka.network:type=RequestMetrics,name=RemoteTimeMs,request=*";
    REQUEST_THROTTLED Histogram "levada_request_throttled_seconds" ["api"] "Time for which a quota muted the connection after the response" "kafka.network:type=RequestMetrics,name=ThrottleTimeMs,request=*";
    REQUEST_SENDING Histogram "levada_request_sending_seconds" ["api"] "Time from the complete response until the socket has taken it" "kafka.network:type=RequestMetrics,name=ResponseSendTimeMs,request=*";
    REQUEST_BYTES_HELD Gauge "levada_request_bytes_held" [] "Memory of requests that are being received or processed" "kafka.network:type=SocketServer,name=MemoryPoolUsed";
    // Connections.
    CONNECTIONS_OPENED Counter "levada_connections_opened" ["listener"] "Kafka connections accepted" "kafka.server:type=socket-server-metrics,listener=*,name=connection-creation-total";
    CONNECTIONS Gauge "levada_connections" ["listener"] "Kafka connections open now" "kafka.server:type=socket-server-metrics,listener=*,name=connection-count";
    CLIENT_CONNECTIONS Gauge "levada_client_connections" ["software", "version"] "Kafka connections open now, by the client's software; beyond 100 kinds of software, connections count as other" "kafka.server:type=socket-server-metrics,clientSoftwareName=*,clientSoftwareVersion=*,name=connections";
    HTTP_CONNECTIONS Gauge "levada_http_connections" [] "HTTP connections open now" "";
    AUTHENTICATIONS Counter "levada_authentications" ["listener", "mechanism", "result"] "SASL authentications: success, failure, or expired if the client did not authenticate again in time" "kafka.server:type=socket-server-metrics,listener=*,name=successful-authentication-total";
    TLS_HANDSHAKES_FAILED Counter "levada_tls_handshakes_failed" [] "TLS handshakes that failed" "kafka.server:type=socket-server-metrics,name=failed-authentication-total";
    CLIENT_ID_RATE Gauge "levada_client_id_bytes_per_second" ["client_id", "direction"] "Record bytes per second, produced and fetched, in the last minute by client id; the 20 client ids that have produced most and the 20 that have fetched most, names cut at 64 characters; beyond 5 000 pairs of user and client id, clients count as other" "kafka.server:type=Produce or Fetch,client-id=* (byte-rate), with quotas only";
    USER_RATE Gauge "levada_user_bytes_per_second" ["user", "direction"] "The same by user" "kafka.server:type=Produce or Fetch,user=* (byte-rate), with quotas only";
    QUOTA_RATE Gauge "levada_quota_rate" ["quota", "user", "client_id"] "Use of a quota per second in the last seconds by the clients that share it, in the unit of the quota; the 100 quotas of which most is used, names cut at 64 characters" "kafka.server:type=Produce, Fetch or Request,user=*,client-id=* (byte-rate, request-time)";
    QUOTA_LIMIT Gauge "levada_quota_limit" ["quota", "user", "client_id"] "Limit of the quota" "";
    // Client telemetry.
    TELEMETRY_INSTANCES Gauge "levada_client_telemetry_instances" [] "Client instances that have recently requested subscriptions or pushed metrics" "kafka.server:type=client-metrics,name=instance-count";
    TELEMETRY_CLIENTS Gauge "levada_client_telemetry_clients" [] "Clients whose metrics are kept" "";
    TELEMETRY_SERIES Gauge "levada_client_telemetry_series" [] "Series of clients that are kept" "";
    TELEMETRY_MEMORY Gauge "levada_client_telemetry_bytes" [] "Approximate memory of the metrics of clients; at 64 MiB the client with the oldest push is evicted" "";
    TELEMETRY_PUSHES Counter "levada_client_telemetry_pushes" ["outcome"] "Pushes of clients: accepted, unknown_subscription (the subscriptions have changed), or damaged (the payload could not be read)" "kafka.server:type=client-metrics,name=plugin-export-count";
    TELEMETRY_THROTTLED Counter "levada_client_telemetry_throttled" [] "Telemetry requests that arrived before the client's interval had passed" "kafka.server:type=client-metrics,name=throttle-count";
    TELEMETRY_EVICTED Counter "levada_client_telemetry_evicted_clients" [] "Clients whose metrics were evicted for those of other clients" "";
    TELEMETRY_LEFT_OUT Counter "levada_client_telemetry_left_out_points" [] "Values that were left out: beyond the series of one client, with a name longer than 512 bytes, or of a histogram" "";
    TELEMETRY_NOT_EXPORTED Gauge "levada_client_telemetry_not_exported_series" [] "Series that levada.client.telemetry.metrics names, beyond the 10000 of one scrape" "";
    CLIENT_GAUGE Gauge "levada_client_metric" ["metric", "client_id", "client_instance_id", "attributes"] "Values that clients have pushed, of the metrics that levada.client.telemetry.metrics names; the units are the client's" "";
    CLIENT_SUM Counter "levada_client_metric_sum" ["metric", "client_id", "client_instance_id", "attributes"] "As levada_client_metric, for sums that never fall; they begin with the first push that is kept" "";
    // Records.
    PRODUCED_BYTES Counter "levada_produced_bytes" [] "Record bytes received from producers" "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec";
    FETCHED_BYTES Counter "levada_fetched_bytes" [] "Record bytes in responses to consumers" "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec";
    REPLICATED_BYTES Counter "levada_replication_sent_bytes" [] "Record bytes in responses to followers" "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec";
    TOPIC_BYTES_IN Counter "levada_topic_produced_bytes" ["topic"] "Record bytes appended for producers" "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=*";
    TOPIC_RECORDS_IN Counter "levada_topic_produced_records" ["topic"] "Records appended for producers" "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=*";
    TOPIC_BATCHES_IN Counter "levada_topic_produced_batches" ["topic"] "Batches appended for producers" "kafka.server:type=BrokerTopicMetrics,name=TotalProduceRequestsPerSec,topic=*";
    TOPIC_BYTES_OUT Counter "levada_topic_fetched_bytes" ["topic"] "Record bytes in responses to consumers" "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=*";
    TOPIC_FAILED_PRODUCES Counter "levada_topic_failed_produces" ["topic"] "Batches of producers that were refused" "kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec,topic=*";
    TOPIC_FAILED_FETCHES Counter "levada_topic_failed_fetches" ["topic"] "Partitions of fetches with an error in the response" "kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec,topic=*";
    LOG_SIZE Gauge "levada_log_size_bytes" ["topic", "partition"] "Bytes of all segments" "kafka.log:type=Log,name=Size,topic=*,partition=*";
    LOG_START Gauge "levada_log_start_offset" ["topic", "partition"] "First offset of the log" "kafka.log:type=Log,name=LogStartOffset,topic=*,partition=*";
    LOG_END Gauge "levada_log_end_offset" ["topic", "partition"] "Offset that the next record gets" "kafka.log:type=Log,name=LogEndOffset,topic=*,partition=*";
    LEFT_OUT Gauge "levada_series_left_out" ["kind"] "Topics and partitions without separate series, because there are more than 5000 or 20000" "";
    LED_PARTITIONS Gauge "levada_led_partitions" [] "Partitions that this broker leads" "kafka.server:type=ReplicaManager,name=LeaderCount";
    UNDER_REPLICATED Gauge "levada_under_replicated_partitions" [] "Partitions that this broker leads with fewer replicas in sync than assigned; always 0 on a single broker" "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions";
    UNDER_MIN_ISR Gauge "levada_under_min_isr_partitions" [] "Partitions that this broker leads with fewer replicas in sync than min.insync.replicas: acks=all is refused" "kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount";
    PREFERRED_NOT_LED Gauge "levada_preferred_leader_imbalance_partitions" [] "Partitions whose preferred leader (the first of the replicas) is this broker, and that another broker leads, or none; levada partition elect ends that" "kafka.controller:type=KafkaController,name=PreferredReplicaImbalanceCount";
    ISR_CHANGES Counter "levada_isr_changes" ["change"] "Changes of the in-sync replicas that this broker has requested from the controller: expansion, shrink, or failed" "kafka.server:type=ReplicaManager,name=IsrExpandsPerSec, IsrShrinksPerSec, FailedIsrUpdatesPerSec";
    THROTTLED_BYTES Counter "levada_replication_throttled_bytes" ["side"] "Bytes of replicas that are throttled (*.replication.throttled.replicas): sent as the leader, received as a follower" "kafka.server:type=LeaderReplication, FollowerReplication (byte-rate)";
    OFFLINE Gauge "levada_offline_partitions" [] "Partitions that are offline after a failure of their storage" "kafka.controller:type=KafkaController,name=OfflinePartitionsCount";
    PARTITIONS Gauge "levada_partitions" [] "Partitions on this broker" "kafka.server:type=ReplicaManager,name=PartitionCount";
    ACKS_DURABILITY_PARTITIONS Gauge "levada_acks_durability_partitions" ["topic", "durability"] "Partitions by topic and by durability of acknowledged records: page-cache or device" "";
    LANE_LONGEST_TURN Gauge "levada_append_lane_hold_seconds_max" ["work"] "Longest time for which the writer of a partition was held, since the start of the process" "";
    // Transfer paths.
    TRANSFER_BYTES Counter "levada_transfer_bytes" ["path"] "Bytes that sockets accepted, by the path that carried them; bytes under uring_read were read from a file, and count again under the path that sends them; splice_copy and sendfile_copy: the kernel copied the pages" "";
    TRANSFER_CALLS Counter "levada_transfer_calls" ["path"] "System calls of a path, including failed calls" "";
    TRANSFER_STALLS Counter "levada_transfer_stalls" ["path"] "System calls for a path that took longer than 1 ms" "";
    TRANSFER_FALLBACKS Counter "levada_transfer_fallbacks" ["cause"] "Number of times that a planned path was not taken, by cause" "";
    TRANSFER_COPIED_BYTES Counter "levada_transfer_copied_bytes" [] "Bytes copied by the CPU between kernel and process" "";
    TRANSFER_WARMED_BYTES Counter "levada_transfer_warmed_bytes" [] "Bytes of cold pages that a thread other than a shard waited for" "";
    TRANSFER_DROPPED_BEHIND_BYTES Counter "levada_transfer_dropped_behind_bytes" [] "Bytes dropped from the page cache after readers of old records had passed" "";
    REPLAY_BYTES Counter "levada_replay_bytes" ["outcome"] "Bytes of old records read from the disk, by admission to the page cache" "";
    REPLAY_AROUND_BYTES Counter "levada_replay_uncached_read_bytes" [] "Bytes of old records read around the page cache" "";
    REPLAY_REMEMBERED_BYTES Gauge "levada_replay_ghost_bytes" [] "Bytes that are admitted to the page cache if they are read again" "";
    REPLAY_MEMORY Gauge "levada_replay_memory_pressure" ["state"] "State of the memory when old records were last read from the disk; the current state is 1. No series before the first such read" "";
    // Upkeep.
    RECOVERY_PARTITIONS Gauge "levada_recovery_partitions" [] "Partitions that wait for the check of their logs after an unclean stop" "kafka.log:type=LogManager,name=remainingLogsToRecover,dir=*";
    RECOVERY_CHECKED_BYTES Counter "levada_recovery_checked_bytes" [] "Bytes of log checked since the start" "";
    LOG_FLUSH Histogram "levada_log_flush_seconds" [] "Time of flushes of a log to the device" "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs";
    RETENTION_SEGMENTS Counter "levada_retention_deleted_segments" [] "Segments that retention has deleted" "";
    RETENTION_BYTES Counter "levada_retention_deleted_bytes" [] "Bytes of segments that retention has deleted" "";
    DIRECTORIES_REFUSING Gauge "levada_log_directories_refusing" [] "Data directories whose storage refuses records, for example because it is full" "";
    DIRECTORIES_OFFLINE Gauge "levada_log_directories_offline" [] "Data directories that are offline after a failure" "kafka.log:type=LogManager,name=OfflineLogDirectoryCount";
    DIRECTORY_BYTES Gauge "levada_log_directory_bytes" ["directory"] "Bytes of the logs in a data directory; a log that moves to another directory counts in its present one" "";
    DISK_FREE Gauge "levada_disk_free_bytes" ["directory"] "Bytes that are free on the volume of a data directory" "";
    DISK_SIZE Gauge "levada_disk_size_bytes" ["directory"] "Size of the volume of a data directory" "";
    CLEANER_BACKLOG_BYTES Gauge "levada_cleaner_backlog_bytes" [] "Bytes of log that compaction has not processed and could process" "";
    CLEANER_RUNS Counter "levada_cleaner_runs" [] "Compactions of a log" "";
    CLEANER_READ_BYTES Counter "levada_cleaner_read_bytes" [] "Bytes that compaction has read" "";
    CLEANER_WRITTEN_BYTES Counter "levada_cleaner_written_bytes" [] "Bytes that compaction has written" "kafka.log:type=LogCleaner,name=cleaner-recopy-percent";
    CLEANER_DIRTIEST_RATIO Gauge "levada_cleaner_dirtiest_ratio" [] "Largest share of a log that is not yet compacted" "kafka.log:type=LogCleanerManager,name=max-dirty-percent";
    CLEANER_UNCLEANABLE_PARTITIONS Gauge "levada_cleaner_uncleanable_partitions" [] "Partitions that cannot be compacted until the next start" "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count";
    // Tiered storage.
    REMOTE_COPIED_BYTES Counter "levada_remote_copied_bytes" [] "Bytes of segments that were copied to the remote store" "kafka.server:type=BrokerTopicMetrics,name=RemoteCopyBytesPerSec";
    REMOTE_COPIES Counter "levada_remote_copies" [] "Started copies of segments to the remote store" "kafka.server:type=BrokerTopicMetrics,name=RemoteCopyRequestsPerSec";
    REMOTE_COPY_ERRORS Counter "levada_remote_copy_errors" [] "Copies of segments to the remote store that have failed" "kafka.server:type=BrokerTopicMetrics,name=RemoteCopyErrorsPerSec";
    REMOTE_READ_BYTES Counter "levada_remote_fetched_bytes" [] "Bytes of remote records in responses to consumers" "kafka.server:type=BrokerTopicMetrics,name=RemoteFetchBytesPerSec";
    REMOTE_READS Counter "levada_remote_fetches" [] "Reads of remote records, one for each partition of a fetch" "kafka.server:type=BrokerTopicMetrics,name=RemoteFetchRequestsPerSec";
    REMOTE_READ_ERRORS Counter "levada_remote_fetch_errors" [] "Reads of remote records that have failed" "kafka.server:type=BrokerTopicMetrics,name=RemoteFetchErrorsPerSec";
    REMOTE_DELETIONS Counter "levada_remote_deletions" [] "Started deletions of segments in the remote store" "kafka.server:type=BrokerTopicMetrics,name=RemoteDeleteRequestsPerSec";
    REMOTE_DELETION_ERRORS Counter "levada_remote_deletion_errors" [] "Deletions of segments in the remote store that have failed" "kafka.server:type=BrokerTopicMetrics,name=RemoteDeleteErrorsPerSec";
    REMOTE_CACHE_BYTES Gauge "levada_remote_cache_bytes" [] "Bytes in the local cache of remote records" "";
    REMOTE_CACHE_LOOKUPS Counter "levada_remote_cache_lookups" ["outcome"] "Parts of remote segments that reads have looked for in the local cache: hit or miss" "";
    REMOTE_CACHE_FETCHED Counter "levada_remote_cache_fetched_bytes" [] "Bytes that the local cache has got from the remote store" "";
    REMOTE_LOG_SIZE Gauge "levada_remote_log_size_bytes" ["topic", "partition"] "Bytes of the remote segments of a partition that this broker leads" "kafka.server:type=BrokerTopicMetrics,name=RemoteLogSizeBytes,topic=*";
    REMOTE_SEGMENTS Gauge "levada_remote_log_segments" ["topic", "partition"] "Remote segments of a partition that this broker leads" "kafka.server:type=BrokerTopicMetrics,name=RemoteLogMetadataCount,topic=*";
    REMOTE_COPY_LAG Gauge "levada_remote_copy_lag_bytes" ["topic", "partition"] "Bytes of closed segments that wait for their copy" "kafka.server:type=BrokerTopicMetrics,name=RemoteCopyLagBytes,topic=*";
    REMOTE_COPY_LAG_SEGMENTS Gauge "levada_remote_copy_lag_segments" ["topic", "partition"] "Closed segments that wait for their copy" "kafka.server:type=BrokerTopicMetrics,name=RemoteCopyLagSegments,topic=*";
    REMOTE_DELETE_LAG Gauge "levada_remote_delete_lag_bytes" ["topic", "partition"] "Bytes of remote segments that wait for their deletion" "kafka.server:type=BrokerTopicMetrics,name=RemoteDeleteLagBytes,topic=*";
    REMOTE_DELETE_LAG_SEGMENTS Gauge "levada_remote_delete_lag_segments" ["topic", "partition"] "Remote segments that wait for their deletion" "kafka.server:type=BrokerTopicMetrics,name=RemoteDeleteLagSegments,topic=*";
    // Groups and transactions.
    GROUP_MEMBERS Gauge "levada_group_members" ["group"] "Members of the group" "";
    GROUP_STATE Gauge "levada_group_state" ["group", "type", "state"] "State of the group; the current state is 1" "kafka.server:type=group-coordinator-metrics,name=group-count,protocol=*,state=*";
    GROUP_REBALANCES Counter "levada_group_rebalances" ["group"] "Rebalances of the group since it was created" "kafka.server:type=group-coordinator-metrics,name=*-rebalance-count";
    GROUP_COMMITTED Gauge "levada_group_committed_offset" ["group", "topic", "partition"] "Offset that the group has committed; its rate is that of the records which the group has processed" "";
    GROUP_LAG_RECORDS Gauge "levada_group_lag_records" ["group", "topic", "partition"] "Records from the committed offset to the high watermark" "";
    GROUP_LAG_SECONDS Gauge "levada_group_lag_seconds" ["group", "topic", "partition"] "Age of the first record after the committed offset; 0 if there is none" "";
    GROUPS_LEFT_OUT Gauge "levada_groups_left_out" [] "Groups without separate series, because there are more than 1000, or their ids have more than 256 bytes" "";
    SHARE_SESSIONS Gauge "levada_share_sessions" [] "Members of share groups with a share session" "kafka.server:type=ShareSessionCache,name=ShareSessionsCount";
    SHARE_PARTITIONS Gauge "levada_share_partitions" [] "Partitions whose delivery state is in memory, once for each share group" "kafka.server:type=ShareSessionCache,name=SharePartitionsCount";
    SHARE_MEMORY Gauge "levada_share_tracked_bytes" [] "Memory for the delivery states of records in flight; no records are acquired from 256 MiB on" "";
    SHARE_ACQUIRED Counter "levada_share_acquired_records" [] "Records acquired by members of share groups, once for each delivery" "kafka.server:type=DelayedShareFetchMetrics (approximately)";
    SHARE_EXPIRED Counter "levada_share_expired_records" [] "Records whose lock has ended without an acknowledgement" "kafka.server:type=SharePartitionMetrics,name=AcquisitionLockTimeoutPerSec";
    SHARE_ACKNOWLEDGED Counter "levada_share_acknowledged_records" ["type"] "Records acknowledged by members of share groups: gap, accept, release, reject or renew" "kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType=*";
    SHARE_DEAD_LETTERS Counter "levada_share_dead_letters" ["group", "outcome"] "Records of the share group whose dead letter was written or abandoned; groups after the first 10 000 are counted together, without a name" "kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueRecordCount,group=* (written)";
    SHARE_DEAD_LETTER_REQUESTS Counter "levada_share_dead_letter_requests" ["group"] "Batches sent to dead letter topics, repetitions included" "kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueTotalProduceRequestsPerSec,group=*";
    SHARE_DEAD_LETTER_FAILURES Counter "levada_share_dead_letter_failures" ["group"] "Batches for dead letter topics that were abandoned" "kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueFailedProduceRequestsPerSec,group=*";
    SHARE_LAG Gauge "levada_share_group_lag_records" ["group", "topic", "partition"] "Records whose delivery the share group has not completed, while a member fetches from this leader" "";
    SHARE_LOADS Histogram "levada_share_partition_load_seconds" [] "Time from the first fetch of a share group in a partition until the delivery state was in memory" "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs";
    SHARE_FETCHES Counter "levada_share_group_fetch_locks" ["group", "topic", "partition"] "Fetches that have held the fetch lock of the shared partition" "kafka.server:type=SharePartitionMetrics,name=FetchLockTimeMs,group=*,topic=*,partition=* (count)";
    SHARE_LOCKED Counter "levada_share_group_fetch_lock_seconds" ["group", "topic", "partition"] "Time for which fetches held the fetch lock of the shared partition; its rate is the share of the time with a fetch in progress" "kafka.server:type=SharePartitionMetrics,name=FetchLockTimeMs,group=*,topic=*,partition=* (sum) and FetchLockRatio (rate)";
    SHARE_PARTITION_EXPIRED Counter "levada_share_group_expired_records" ["group", "topic", "partition"] "Records whose lock has ended without an acknowledgement, in the present leader epoch" "kafka.server:type=SharePartitionMetrics,name=AcquisitionLockTimeoutPerSec,group=*,topic=*,partition=*";
    SHARE_BATCHES Gauge "levada_share_group_in_flight_batches" ["group", "topic", "partition"] "Batches of records between the share group's start offset and the last acquired record" "kafka.server:type=SharePartitionMetrics,name=InFlightBatchCount,group=*,topic=*,partition=*";
    SHARE_IN_FLIGHT Gauge "levada_share_group_in_flight_records" ["group", "topic", "partition"] "Offsets between the share group's start offset and the last acquired record" "kafka.server:type=SharePartitionMetrics,name=InFlightMessageCount,group=*,topic=*,partition=*";
    TRANSACTIONAL_IDS Gauge "levada_transactional_ids" ["state"] "Transactional ids by state of their transaction; Ongoing is open" "";
    TRANSACTIONS Counter "levada_transactions" ["outcome"] "Transactions that were committed or aborted" "";
    LATE_TRANSACTION_PARTITIONS Gauge "levada_late_transaction_partitions" [] "Partitions with a hanging transaction: open for longer than transaction.max.timeout.ms and 5 minutes" "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount";
    // Membership in a cluster.
    CLUSTER_PHASE Gauge "levada_cluster_phase" ["phase"] "1 for the phase of this broker in the cluster, otherwise 0. All levada_cluster metrics exist only in a cluster" "kafka.server:type=KafkaServer,name=BrokerState";
    CLUSTER_FENCED Gauge "levada_cluster_fenced" [] "1 while this broker is fenced, so that it leads no partitions" "";
    CLUSTER_BROKER_EPOCH Gauge "levada_cluster_broker_epoch" [] "Epoch of the registration, or -1" "";
    CLUSTER_CONTROLLER Gauge "levada_cluster_active_controller" [] "Id of the active controller, or -1" "kafka.server:type=raft-metrics,name=current-leader";
    CLUSTER_QUORUM_EPOCH Gauge "levada_cluster_quorum_epoch" [] "Epoch of the quorum of controllers" "kafka.server:type=raft-metrics,name=current-epoch";
    CLUSTER_HIGH_WATERMARK Gauge "levada_cluster_metadata_high_watermark" [] "High watermark of the metadata log" "kafka.server:type=raft-metrics,name=high-watermark";
    CLUSTER_APPLIED Gauge "levada_cluster_metadata_offset" [] "Offset of the last metadata record that is in force, or -1" "kafka.server:type=broker-metadata-metrics,name=last-applied-record-offset";
    CLUSTER_RECORD_AGE Gauge "levada_cluster_metadata_record_age_seconds" [] "Time since a controller wrote the last metadata record that is in force; an active controller writes one every 500 ms" "kafka.server:type=broker-metadata-metrics,name=last-applied-record-lag-ms";
    CLUSTER_PUBLICATIONS Histogram "levada_cluster_metadata_publication_seconds" [] "Time that the broker took to put a state of the metadata in force" "";
    CLUSTER_PUBLICATION_ERRORS Counter "levada_cluster_metadata_publication_errors" [] "Metadata states of which a part is not in force, because a partition cannot be opened" "kafka.server:type=broker-metadata-metrics,name=metadata-apply-error-count";
    CLUSTER_LAG Gauge "levada_cluster_metadata_lag" [] "Committed metadata records that are not in force yet" "";
    CLUSTER_METADATA_AGE Gauge "levada_cluster_metadata_age_seconds" [] "Time since the last response of a controller with the end of the metadata log or with records" "";
    CLUSTER_HEARTBEAT_AGE Gauge "levada_cluster_heartbeat_age_seconds" [] "Time since the last response of a controller to a heartbeat or a registration" "";
    CLUSTER_FORWARDED Counter "levada_cluster_forwarded_requests" ["result"] "Requests of clients that the broker sent to the active controller: answered or failed" "kafka.server:type=ForwardingManager,name=RemoteTimeMs";
    FOLLOWER_LAG Gauge "levada_follower_lag_records" ["topic", "partition"] "Records up to the leader's high watermark that this follower does not have; -1 before the leader's first response" "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=*,topic=*,partition=*";
    FOLLOWER_LAG_MAX Gauge "levada_follower_lag_records_max" [] "Largest `levada_follower_lag_records` of all followed partitions" "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica";
    FETCHER_ERRORS Counter "levada_replica_fetch_errors" [] "Failed fetches from other brokers, and errors of leaders for single partitions" "";
    FETCHER_BYTES Counter "levada_replica_fetched_bytes" [] "Bytes of records that leaders have sent to this follower" "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec";
    // The process.
    PROCESS_START_TIME Gauge "process_start_time_seconds" [] "Start of the process, in seconds since 1970" "java.lang:type=Runtime,name=StartTime";
    PROCESS_RESIDENT_MEMORY_BYTES Gauge "process_resident_memory_bytes" [] "Resident memory" "java.lang:type=Memory,name=HeapMemoryUsage";
    PROCESS_OPEN_FDS Gauge "process_open_fds" [] "Open file descriptors" "java.lang:type=OperatingSystem,name=OpenFileDescriptorCount";
    PROCESS_MAX_FDS Gauge "process_max_fds" [] "Maximum number of open file descriptors of the process" "java.lang:type=OperatingSystem,name=MaxFileDescriptorCount";
    SHARD_BUSY Counter "levada_shard_busy_seconds" ["shard"] "CPU time of the thread of a shard, which serves a part of the connections; at a rate near 1 its clients wait for it" "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent (1 - rate)";
    PROCESS_CPU_SECONDS Counter "process_cpu_seconds" [] "CPU time used" "java.lang:type=OperatingSystem,name=ProcessCpuTime";
}
