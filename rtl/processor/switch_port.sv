// The key-switching unit between its queue and memory: reads a batch of ciphertexts, streams the key once for all of them,
// writes the results. The key lies as the unit reads it, rows of LEVEL·T words in KEY_BEATS beats; at most KEY_ROWS rows are
// held or on their way.
`default_nettype none
module switch_port #(
    parameter LOGN = 10,
    parameter LOGT = 1,
    parameter K = 1,
    parameter LEVEL = 4,
    parameter BASE_LOG = 4,
    parameter DIMENSION = 500,
    parameter BATCH = 4,
    parameter KEY_BEATS = 4,
    parameter STRIDE_LOG = 14,
    parameter SLOT = BATCH > 1 ? $clog2(BATCH) : 1  // derived
) (
    input  wire                                      clk,
    input  wire                                      reset,
    input  wire [63:0]                               slots,
    input  wire                                      batch_valid,
    input  wire [SLOT:0]                             batch_count,
    input  wire [63:0]                               batch_key,
    output wire                                      batch_take,
    output wire [SLOT-1:0]                           entry,
    input  wire [15:0]                               entry_src,
    input  wire [15:0]                               entry_dst,
    output wire                                      pop,
    output wire                                      busy,
    output wire                                      read_valid,
    input  wire                                      read_ready,
    output wire [63:0]                               read_address,
    input  wire                                      in_valid,
    input  wire [64*(1<<LOGT)-1:0]                   in_words,
    output reg                                       key_valid,
    input  wire                                      key_ready,
    output reg  [63:0]                               key_address,
    input  wire                                      key_in_valid,
    input  wire [64*LEVEL*(1<<LOGT)/KEY_BEATS-1:0]   key_in,
    output wire                                      write_valid,
    input  wire                                      write_ready,
    output wire [63:0]                               write_address,
    output wire [64*(1<<LOGT)-1:0]                   write_words,
    output wire [(1<<LOGT)-1:0]                      write_strobe,
    output wire                                      write_last,
    input  wire                                      write_done
);
  localparam T = 1 << LOGT;
  localparam WIDE = (DIMENSION + T) / T;
  localparam [31:0] ROWS = (K << LOGN) * WIDE;  // of the key
  localparam BURST = 16;  // rows of a request
  localparam KEY_ROWS = 256;
  localparam ROW_BITS = 64 * LEVEL * T;
  localparam BEAT_BITS = ROW_BITS / KEY_BEATS;
  localparam WORD = $clog2(WIDE + 1);

  reg active, reading;
  reg [SLOT:0] count, written;
  reg [WORD-1:0] word;
  reg [SLOT-1:0] asking, writing;
  wire key_pop, core_idle;
  assign batch_take = !active && batch_valid;
  assign busy = active;
  assign pop = active && write_done;
  assign entry = reading ? asking : writing;
  assign read_valid = reading;
  assign read_address = slots + (64'(entry_src) << STRIDE_LOG);
  assign write_address = slots + (64'(entry_dst) << STRIDE_LOG) + (64'(word) << (LOGT + 3));
  wire moved = write_valid && write_ready;
  assign write_last = word == WORD'(WIDE - 1);
  assign write_strobe = write_last ? T'((1 << (DIMENSION % T + 1)) - 1) : {T{1'b1}};

  reg [31:0] asked, popped;
  always @(posedge clk) begin
    if (reset) begin
      active  <= 0;
      reading <= 0;
      key_valid <= 0;
    end else begin
      if (batch_take) begin
        active  <= 1;
        reading <= 1;
        count   <= batch_count;
        asking  <= 0;
        writing <= 0;
        written <= 0;
        word    <= 0;
        asked   <= 0;
        popped  <= 0;
        key_address <= batch_key - 64'(BURST * ROW_BITS / 8);
      end
      if (reading && read_ready) begin
        asking <= asking + 1'b1;
        if ({1'b0, asking} + 1'b1 == count) reading <= 0;
      end
      if (active) popped <= popped + 32'(key_pop);
      if (active && !key_valid && asked != ROWS && asked - popped + BURST <= KEY_ROWS) begin
        key_valid   <= 1;
        key_address <= key_address + 64'(BURST * ROW_BITS / 8);
        asked       <= asked + BURST;
      end else if (key_ready) key_valid <= 0;
      if (moved) begin
        word <= write_last ? 0 : word + 1'b1;
        if (write_last) writing <= writing + 1'b1;
      end
      if (pop) begin
        written <= written + 1'b1;
        if (written + 1'b1 == count) active <= 0;
      end
    end
  end

  // Beats to rows.
  reg [$clog2(KEY_BEATS+1)-1:0] beat;
  wire row_ends = beat == ($clog2(KEY_BEATS + 1))'(KEY_BEATS - 1);
  reg [ROW_BITS-1:0] key_row;
  reg key_push;
  always @(posedge clk) begin
    beat     <= reset || (key_in_valid && row_ends) ? 0 : beat + ($clog2(KEY_BEATS + 1))'(key_in_valid);
    key_push <= !reset && key_in_valid && row_ends;
    if (key_in_valid) key_row <= ROW_BITS'({key_in, key_row} >> BEAT_BITS);
  end

  wire out_valid;
  wire [64*T-1:0] out_words;
  wire [4:0] used;
  key_switch #(
      .LOGN(LOGN), .LOGT(LOGT), .K(K), .LEVEL(LEVEL), .BASE_LOG(BASE_LOG), .DIMENSION(DIMENSION), .BATCH(BATCH)
  ) core (
      .clk(clk), .reset(reset), .start(batch_take), .count(batch_count), .idle(core_idle), .in_valid(in_valid),
      .in_words(in_words), .key_push(key_push), .key_words(key_row), .key_pop(key_pop), .out_valid(out_valid),
      .out_words(out_words), .out_last(), .out_room(used < 5'd8));
  fifo #(.WIDTH(64 * T), .DEPTH(16)) leaving (
      .clk(clk), .reset(reset), .push(out_valid), .in(out_words), .used(used), .valid(write_valid), .out(write_words),
      .ready(write_ready));
endmodule
`default_nettype wire
