// Instructions of one kind between issue and completion, in batches, and the slots that they read and write.
// A batch is closed when it holds BATCH instructions, at `close`, or when the decoder `waits` for one of its instructions; they
// share one key. `pop` is the completion of
// the oldest instruction. Slots stay taken from `push` to `pop`.
`default_nettype none
module queue #(
    parameter BATCH = 4,
    parameter MORE = 64,  // bits of operands that are only kept
    parameter SLOT = BATCH > 1 ? $clog2(BATCH) : 1,  // derived, as the next
    parameter RING = $clog2(2 * BATCH)
) (
    input  wire            clk,
    input  wire            reset,
    input  wire            push,
    input  wire            close,
    input  wire            waits,
    input  wire [15:0]     src,
    input  wire [15:0]     dst,
    input  wire [15:0]     last,  // of the slots that are written, dst and up
    input  wire [63:0]     key,
    input  wire [MORE-1:0] more,
    output wire            full,
    output wire            other_key,  // the open batch has another one
    output wire            open,
    output wire            empty,
    input  wire [16:0]     look_src,  // bit 16: there is one
    input  wire [16:0]     look_dst,
    input  wire [15:0]     look_last,
    output reg             hit,  // look_src is to be written, or look_dst to be written or read
    output wire            batch_valid,
    output wire [SLOT:0]   batch_count,
    output wire [63:0]     batch_key,
    input  wire            batch_take,
    input  wire [SLOT-1:0] entry,  // of the batch that was taken last, when all before it was complete
    output wire [15:0]     entry_src,
    output wire [15:0]     entry_dst,
    output wire [MORE-1:0] entry_more,
    input  wire            pop
);
  localparam SIZE = 1 << RING;
  reg [15:0] srcs[0:SIZE-1], dsts[0:SIZE-1], lasts[0:SIZE-1];
  reg [MORE-1:0] mores[0:SIZE-1];
  reg [SIZE-1:0] taken;
  reg [RING:0] from, to;
  reg [RING-1:0] base;
  reg [SLOT:0] gathered;
  reg [63:0] open_key;
  reg [SLOT:0] counts[0:SIZE-1];
  reg [63:0] keys[0:SIZE-1];
  reg [RING:0] first, ready;  // closed batches
  wire [RING:0] held = to - from;
  assign full = held >= (RING + 1)'(2 * BATCH);
  assign empty = held == 0;
  assign open = gathered != 0;
  assign other_key = open && key != open_key;
  assign batch_valid = first != ready;
  assign batch_count = counts[first[RING-1:0]];
  assign batch_key = keys[first[RING-1:0]];
  wire [RING-1:0] at = base + RING'(entry);
  assign entry_src = srcs[at];
  assign entry_dst = dsts[at];
  assign entry_more = mores[at];

  integer i;
  reg [SIZE-1:0] hits, gathering;
  always @* begin
    hits = 0;
    for (i = 0; i < SIZE; i = i + 1)
    if (taken[i] && ((look_src[16] && look_src[15:0] >= dsts[i] && look_src[15:0] <= lasts[i]) ||
        (look_dst[16] && ((look_dst[15:0] <= lasts[i] && look_last >= dsts[i]) ||
        (srcs[i] >= look_dst[15:0] && srcs[i] <= look_last))))) hits[i] = 1;
    hit = |hits;
  end

  wire fills = push && gathered + 1'b1 == (SLOT + 1)'(BATCH);
  wire closes = fills || ((close || (waits && |(hits & gathering))) && open && !push);
  always @(posedge clk) begin
    if (batch_take) base <= from[RING-1:0];
    if (push) begin
      srcs[to[RING-1:0]]  <= src;
      dsts[to[RING-1:0]]  <= dst;
      lasts[to[RING-1:0]] <= last;
      mores[to[RING-1:0]] <= more;
      open_key            <= key;
    end
    if (closes) begin
      counts[ready[RING-1:0]] <= gathered + (SLOT + 1)'(push);
      keys[ready[RING-1:0]]   <= push ? key : open_key;
    end
    if (reset) begin
      taken    <= 0;
      gathering <= 0;
      from     <= 0;
      to       <= 0;
      gathered <= 0;
      first    <= 0;
      ready    <= 0;
    end else begin
      if (push) taken[to[RING-1:0]] <= 1;
      if (closes) gathering <= 0;
      else if (push) gathering[to[RING-1:0]] <= 1;
      if (pop) taken[from[RING-1:0]] <= 0;
      to       <= to + (RING + 1)'(push);
      from     <= from + (RING + 1)'(pop);
      gathered <= closes ? 0 : gathered + (SLOT + 1)'(push);
      ready    <= ready + (RING + 1)'(closes);
      first    <= first + (RING + 1)'(batch_take);
    end
  end
endmodule
`default_nettype wire
