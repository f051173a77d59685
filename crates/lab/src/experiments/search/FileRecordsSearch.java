/**
 * Looks offsets up with Kafka's own FileRecords. Orders come on standard input: "each COUNT" or "search COUNT", and as many lines with
 * a position and an offset. Answered by as many lines (position and size of the batch that was found, nanoseconds) and a last one
 * with the thread's processor time in nanoseconds.
 */

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;

public class FileRecordsSearch {
    public static void main(String[] args) throws Exception {
        FileRecords records = FileRecords.open(new File(args[0]), false);
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16));
        out.println("ready");
        out.flush();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] order = line.split(" ");
            boolean each = order[0].equals("each");
            int count = Integer.parseInt(order[1]);
            int[] from = new int[count];
            long[] offsets = new long[count];
            for (int at = 0; at < count; at++) {
                String[] question = in.readLine().split(" ");
                from[at] = Integer.parseInt(question[0]);
                offsets[at] = Long.parseLong(question[1]);
            }
            long[][] found = new long[count][];
            long[] took = new long[count];
            long cpu = threads.getCurrentThreadCpuTime();
            for (int at = 0; at < count; at++) {
                long start = System.nanoTime();
                found[at] = each ? byLastOffsets(records, from[at], offsets[at]) : search(records, from[at], offsets[at]);
                took[at] = System.nanoTime() - start;
            }
            cpu = threads.getCurrentThreadCpuTime() - cpu;
            for (int at = 0; at < count; at++) {
                out.println(found[at][0] + " " + found[at][1] + " " + took[at]);
            }
            out.println(cpu);
            out.flush();
        }
    }

    /** As Kafka does it now. */
    private static long[] search(FileRecords records, int from, long offset) {
        FileRecords.LogOffsetPosition found = records.searchForOffsetFromPosition(offset, from);
        return new long[] {found.position, found.size};
    }

    /** As Kafka did it before KAFKA-18989: each batch is asked for its last offset. */
    private static long[] byLastOffsets(FileRecords records, int from, long offset) {
        for (FileChannelRecordBatch batch : records.batchesFrom(from)) {
            if (batch.lastOffset() >= offset) {
                return new long[] {batch.position(), batch.sizeInBytes()};
            }
        }
        throw new IllegalArgumentException("no batch has offset " + offset);
    }
}
