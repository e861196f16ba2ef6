// The bootstrap between its queue and memory: reads tables and ciphertexts of a batch, fetches GGSW ciphertexts one step
// ahead of the loop, writes the results. A step of the key lies as the unit reads it: k + 1 polynomials of N/T rows of
// LEVEL·(k + 1)·T words in KEY_BEATS beats. Tables lie in rows, lane l of row t being coefficient l·N/T + t.
`default_nettype none
module bootstrap_port #(
    parameter LOGN = 10,
    parameter LOGT = 1,
    parameter K = 1,
    parameter LEVEL = 2,
    parameter BASE_LOG = 10,
    parameter DIMENSION = 500,
    parameter BATCH = 4,
    parameter CENTERED = 1,
    parameter MANY = 4,
    parameter KEY_BEATS = 4,
    parameter STRIDE_LOG = 14,
    parameter SLOT = BATCH > 1 ? $clog2(BATCH) : 1  // derived
) (
    input  wire                                          clk,
    input  wire                                          reset,
    input  wire [63:0]                                   slots,
    input  wire                                          batch_valid,
    input  wire [SLOT:0]                                 batch_count,
    input  wire [63:0]                                   batch_key,
    output wire                                          batch_take,
    output wire [SLOT-1:0]                               entry,
    input  wire [15:0]                                   entry_src,
    input  wire [15:0]                                   entry_dst,
    input  wire [63:0]                                   entry_table,
    input  wire [MANY*LOGN-1:0]                          entry_indices,
    input  wire [$clog2(MANY+1)-1:0]                     entry_results,
    output wire                                          pop,
    output wire                                          busy,
    output wire                                          table_valid,
    input  wire                                          table_ready,
    output wire [63:0]                                   table_address,
    input  wire                                          table_in_valid,
    input  wire [64*(1<<LOGT)-1:0]                       table_in,
    output wire                                          read_valid,
    input  wire                                          read_ready,
    output wire [63:0]                                   read_address,
    input  wire                                          in_valid,
    input  wire [63:0]                                   in_word,
    output reg                                           key_valid,
    input  wire                                          key_ready,
    output reg  [63:0]                                   key_address,
    input  wire                                          key_in_valid,
    input  wire [64*LEVEL*(K+1)*(1<<LOGT)/KEY_BEATS-1:0] key_in,
    output wire                                          write_valid,
    input  wire                                          write_ready,
    output wire [63:0]                                   write_address,
    output wire [64*(1<<LOGT)-1:0]                       write_words,
    output wire [(1<<LOGT)-1:0]                          write_strobe,
    output wire                                          write_last,
    input  wire                                          write_done
);
  localparam T = 1 << LOGT;
  localparam LOGM = LOGN - LOGT;
  localparam POLY = $clog2(K + 1);
  localparam STEP = $clog2(DIMENSION + 2);
  localparam ROWS = (K << LOGM) + 1;  // of a result
  localparam ROW = $clog2(ROWS + 1);
  localparam ROW_BITS = 64 * LEVEL * (K + 1) * T;
  localparam BEAT_BITS = ROW_BITS / KEY_BEATS;
  localparam GGSW_BYTES = ((K + 1) << LOGM) * ROW_BITS / 8;
  localparam [2:0] WAIT = 0, ASK_TABLE = 1, TABLE = 2, ASK = 3, TAKE = 4, RUN = 5;

  reg [2:0] phase;
  reg [SLOT:0] count, written;
  reg [SLOT-1:0] loading, writing;
  reg [LOGM-1:0] table_at;
  reg [STEP-1:0] word, key_loaded, asked;
  wire [STEP-1:0] key_used;
  wire core_idle, core_ready;
  assign busy = phase != WAIT;
  assign batch_take = phase == WAIT && batch_valid && core_idle;
  // Results of each ciphertext; which one is written, and which one the memory answers next.
  localparam RESULT = $clog2(MANY + 1);
  reg [RESULT-1:0] results[0:BATCH-1];
  reg [RESULT-1:0] result, answered;
  wire last_result = result + 1'b1 == entry_results;
  assign pop = write_done && answered + 1'b1 == results[written[SLOT-1:0]];
  assign entry = phase == RUN ? writing : loading;
  assign table_valid = phase == ASK_TABLE;
  assign table_address = entry_table;
  assign read_valid = phase == ASK;
  assign read_address = slots + (64'(entry_src) << STRIDE_LOG);
  wire last_entry = {1'b0, loading} + 1'b1 == count;
  reg [ROW-1:0] row;
  wire moved = write_valid && write_ready;
  assign write_last = row == ROW'(ROWS - 1);
  assign write_strobe = write_last ? T'(1) : {T{1'b1}};
  assign write_address = slots + (64'(entry_dst + 16'(result)) << STRIDE_LOG) + (64'(row) << (LOGT + 3));

  reg key_ends;
  always @(posedge clk) begin
    if (reset) begin
      phase     <= WAIT;
      key_valid <= 0;
      table_at  <= 0;
      word      <= 0;
    end else begin
      case (phase)
        WAIT: if (batch_take) begin
          phase      <= ASK_TABLE;
          count      <= batch_count;
          loading    <= 0;
          writing    <= 0;
          written    <= 0;
          row        <= 0;
          result     <= 0;
          answered   <= 0;
          asked      <= 0;
          key_loaded <= 0;
          key_address <= batch_key - 64'(GGSW_BYTES);
        end
        ASK_TABLE: if (table_ready) phase <= TABLE;
        TABLE: if (table_in_valid) begin
          table_at <= table_at + 1'b1;
          if (&table_at) phase <= ASK;
        end
        ASK: if (read_ready) phase <= TAKE;
        TAKE: if (in_valid) begin
          word <= word == STEP'(DIMENSION) ? 0 : word + 1'b1;
          if (word == STEP'(DIMENSION)) begin
            phase   <= last_entry ? RUN : ASK_TABLE;
            results[loading] <= entry_results;
            loading <= loading + 1'b1;
          end
        end
        default: begin
          if (moved) begin
            row <= write_last ? 0 : row + 1'b1;
            if (write_last) begin
              result <= last_result ? 0 : result + 1'b1;
              if (last_result) writing <= writing + 1'b1;
            end
          end
          if (write_done) answered <= pop ? 0 : answered + 1'b1;
          if (pop) begin
            written <= written + 1'b1;
            if (written + 1'b1 == count) phase <= WAIT;
          end
        end
      endcase
      if (busy) begin
        // A step's place is free when the step two before it is no longer read.
        if (!key_valid && asked != STEP'(DIMENSION) && asked < key_used + 2'd2) begin
          key_valid   <= 1;
          key_address <= key_address + 64'(GGSW_BYTES);
          asked       <= asked + 1'b1;
        end else if (key_ready) key_valid <= 0;
        if (key_ends) key_loaded <= key_loaded + 1'b1;
      end
    end
  end

  // The key: beats to rows, rows to their places.
  reg [$clog2(KEY_BEATS+1)-1:0] beat;
  wire row_ends = beat == ($clog2(KEY_BEATS + 1))'(KEY_BEATS - 1);
  reg [ROW_BITS-1:0] key_row;
  reg key_push, key_half;
  reg [POLY-1:0] key_poly;
  reg [LOGM-1:0] key_at;
  wire poly_ends = &key_at;
  wire step_ends = poly_ends && key_poly == POLY'(K);
  always @(posedge clk) begin
    beat     <= reset || (key_in_valid && row_ends) ? 0 : beat + ($clog2(KEY_BEATS + 1))'(key_in_valid);
    key_push <= !reset && key_in_valid && row_ends;
    key_ends <= !reset && key_push && step_ends;
    if (key_in_valid) key_row <= ROW_BITS'({key_in, key_row} >> BEAT_BITS);
    if (reset || phase == WAIT) begin
      key_half <= 0;
      key_poly <= 0;
      key_at   <= 0;
    end else if (key_push) begin
      key_at <= key_at + 1'b1;
      if (poly_ends) key_poly <= step_ends ? 0 : key_poly + 1'b1;
      if (step_ends) key_half <= !key_half;
    end
  end
  wire [POLY-1:0] wanted_poly, table_poly;
  wire [LOGM-1:0] wanted_row, table_row;
  wire [SLOT-1:0] table_slot;
  wire [ROW_BITS-1:0] key_words;
  memory #(.WIDTH(ROW_BITS), .DEPTH(2 << (POLY + LOGM))) key (
      .clk(clk), .write(key_push), .write_at({key_half, key_poly, key_at}), .in(key_row),
      .read_at({key_used[0], wanted_poly, wanted_row}), .out(key_words));

  wire [64*T-1:0] table_words;
  reg table_body;
  always @(posedge clk) table_body <= table_poly == POLY'(K);
  memory #(.WIDTH(64 * T), .DEPTH(1 << (SLOT + LOGM))) tables (
      .clk(clk), .write(table_in_valid), .write_at({loading, table_at}), .in(table_in),
      .read_at({table_slot, table_row}), .out(table_words));

  wire out_valid;
  wire [64*T-1:0] out_words;
  localparam LEAVING = $clog2(3 * ROWS);
  wire [LEAVING:0] left;
  bootstrap #(
      .LOGN(LOGN), .LOGT(LOGT), .K(K), .LEVEL(LEVEL), .BASE_LOG(BASE_LOG), .DIMENSION(DIMENSION), .BATCH(BATCH),
      .CENTERED(CENTERED), .MANY(MANY)
  ) core (
      .clk(clk), .reset(reset), .in_valid(in_valid), .in_ready(core_ready), .in_word(in_word), .in_index(entry_indices),
      .in_results(entry_results), .out_room(left < (LEAVING + 1)'((1 << LEAVING) - 2 * ROWS)),
      .flush(phase == RUN), .table_slot(table_slot), .table_poly(table_poly), .table_row(table_row),
      .table_words(table_words & {(64 * T) {table_body}}), .key_loaded(key_loaded), .key_used(key_used),
      .key_poly(wanted_poly), .key_row(wanted_row), .key_words(key_words), .out_valid(out_valid), .out_slot(),
      .out_last(), .out_words(out_words), .idle(core_idle));
  fifo #(.WIDTH(64 * T), .DEPTH(1 << LEAVING)) leaving (
      .clk(clk), .reset(reset), .push(out_valid), .in(out_words), .used(left), .valid(write_valid), .out(write_words),
      .ready(write_ready));
endmodule
`default_nettype wire
