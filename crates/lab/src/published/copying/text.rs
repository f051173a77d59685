//! The text of the page before and after the tables.

/// Text before the figures.
pub(super) const HEAD: &str = "\
# If splice copies

`splice` and `sendfile` of today's Linux put pages of the page cache into a socket by reference. In
June 2026 it was proposed that `splice` copies them (`copy_splice_read`), as a cure for a series of
vulnerabilities in code that writes to such pages; it was asked which real loads would notice. This
page measures what a server of files or of a log pays for it, and how much of that a server wins
back that no longer uses `splice`. `levada lab claims` generates it from
[the record](runs/transfer.jsonl); a test compares the two.

## Method

- **The kernel's own copying splice.** A descriptor with `O_DIRECT` makes `splice` take
  `copy_splice_read` since Linux 6.5. On tmpfs (since 6.6) it copies from memory without a device, so
  that the difference between two descriptors of the same file is the cost of the copy, with its
  allocation of pages. Each table has both.
- One thread sends a file in memory over loopback TCP (cubic) to a receiver in another process, which
  discards the bytes in the kernel (`MSG_TRUNC`) or copies them into memory. With 10 and 100
  receivers, each gets another part of the file, by turns of 1 MiB.
- Cost is processor time per GB, of the sender and of the receiver: on loopback, work moves from one to
  the other, and only the sum is fair. Cases alternate within a round; a factor is the median
  of the quotients of the same round, with its 95 % confidence interval
  ([how](METHODOLOGY.md), [known biases](BIAS.md)). Every byte of every path is checked before the
  rounds.
- *Copies* are those that the sending process makes or that the kernel reports for it, per byte. The
  receiver's copy into memory is not among them.
- The *second lane* is what Levada's engine does on a kernel whose `splice` copies: it maps at most
  1 MiB of the file, sends the mapping by `send` in one call, and unmaps it
  ([decision](../decisions/2026-11-29-transfer-plan.md)). The engine finds out by a probe that
  changes a page after a splice, not by the version of the kernel.
- The groups *hot* send a file of ext4 from the page cache. There, `O_DIRECT` would read the device, so
  that they have no splice that copies; the page cache has large folios, and tmpfs pages of 4 KiB.

To repeat it: `levada lab transfer --rounds 9`.

## Figures

";

/// Head of each table.
pub(super) const COLUMNS: &str = "\
| way | sender s/GB | receiver s/GB | both s/GB | both, against splice by reference | copies |
|---|---|---|---|---|---|
";

/// Text after the figures.
pub(super) const END: &str = "
## What it says, and what it does not

- A copy in `splice` makes the sender three to six times as expensive: the kernel also allocates and
  frees each page of the pipe, and loads the bytes from memory. The tables show that as the difference
  between the first row and the third.
- Where the receiver copies and runs on the same machine, that difference is in the receiver's column: the
  side that touches the bytes first loads them from memory, and a sender that copies leaves them in the cache.
  A server whose clients are on other machines pays the sender's column.
- The second lane costs what the splice that copies costs, within the noise of this record: it is
  no cure for the copy, and does not lose to it. Its copy is counted by the process that makes it.
- `read` into a buffer and `send` from it is what a program without these calls does, and what
  Kafka, nginx and others fall back to. The mapping saves one of its two copies.
- `MSG_ZEROCOPY` and `SEND_ZC` refer to the pages until they are delivered. On loopback and virtual
  devices the kernel copies them at delivery, and the notification comes on top. A network card
  that gathers would save that copy; this machine has none, and the record says nothing about it.
- Two processors of one virtual machine, no device, one kernel. Cold files are limited by their device:
  there, the copy is hidden in processor time that these tables do not compare.
";
