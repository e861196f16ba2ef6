// The processor: fetches a program, decodes it, and runs it on ciphertexts in memory.
//
// Memory is seen through channels of their own, so that no unit waits for another's traffic. Reading: a request of `beats`
// words of the channel's width is taken when valid and ready; its beats come in order, each with `in_valid`, and are always
// taken, because nothing is asked for that has no place. Writing: beats with address and strobe (a bit a word of 64 bits),
// taken when valid and ready; `written` answers each last beat when the ciphertext can be read back.
// Slot i lies at `slots` + i·2^STRIDE_LOG bytes. A ciphertext under the big key is k·N/T rows of T words, word l of row t of
// polynomial c being coefficient l·N/T + t, then a row with the body alone; under the small key, n + 1 words in order.
`default_nettype none
module processor #(
    parameter LOGN = 9,
    parameter LOGT = 1,
    parameter K = 1,
    parameter LEVEL = 1,
    parameter BASE_LOG = 23,
    parameter DIMENSION = 64,
    parameter KS_LEVEL = 4,
    parameter KS_BASE_LOG = 4,
    parameter BATCH = 4,
    parameter CENTERED = 1,
    parameter MANY = 4,  // results of a bootstrap, at most
    parameter KS_BEATS = 2,  // beats of a row of the key-switching key
    parameter BSK_BEATS = 2,  // beats of a row of the bootstrapping key
    parameter STRIDE_LOG = 13
) (
    input  wire        clk,
    input  wire        reset,
    input  wire        start,
    input  wire [63:0] program_address,
    input  wire [31:0] program_words,
    input  wire [63:0] slots,
    output wire        done,
    output wire [3:0]  status,
    output wire [31:0] offset,
    output wire        switch_busy,
    output wire        bootstrap_busy,
    output wire        fetch_valid,
    input  wire        fetch_ready,
    output wire [63:0] fetch_address,
    output wire [31:0] fetch_beats,
    input  wire        fetch_in_valid,
    input  wire [63:0] fetch_in,
    output wire        linear_valid,
    input  wire        linear_ready,
    output wire [63:0] linear_address,
    output wire [31:0] linear_beats,
    input  wire        linear_in_valid,
    input  wire [64*(1<<LOGT)-1:0] linear_in,
    output wire        switch_valid,
    input  wire        switch_ready,
    output wire [63:0] switch_address,
    output wire [31:0] switch_beats,
    input  wire        switch_in_valid,
    input  wire [64*(1<<LOGT)-1:0] switch_in,
    output wire        switch_key_valid,
    input  wire        switch_key_ready,
    output wire [63:0] switch_key_address,
    output wire [31:0] switch_key_beats,
    input  wire        switch_key_in_valid,
    input  wire [64*KS_LEVEL*(1<<LOGT)/KS_BEATS-1:0] switch_key_in,
    output wire        table_valid,
    input  wire        table_ready,
    output wire [63:0] table_address,
    output wire [31:0] table_beats,
    input  wire        table_in_valid,
    input  wire [64*(1<<LOGT)-1:0] table_in,
    output wire        bootstrap_valid,
    input  wire        bootstrap_ready,
    output wire [63:0] bootstrap_address,
    output wire [31:0] bootstrap_beats,
    input  wire        bootstrap_in_valid,
    input  wire [63:0] bootstrap_in,
    output wire        bootstrap_key_valid,
    input  wire        bootstrap_key_ready,
    output wire [63:0] bootstrap_key_address,
    output wire [31:0] bootstrap_key_beats,
    input  wire        bootstrap_key_in_valid,
    input  wire [64*LEVEL*(K+1)*(1<<LOGT)/BSK_BEATS-1:0] bootstrap_key_in,
    output wire        linear_write_valid,
    input  wire        linear_write_ready,
    output wire [63:0] linear_write_address,
    output wire [64*(1<<LOGT)-1:0] linear_write_words,
    output wire [(1<<LOGT)-1:0] linear_write_strobe,
    output wire        linear_write_last,
    input  wire        linear_written,
    output wire        switch_write_valid,
    input  wire        switch_write_ready,
    output wire [63:0] switch_write_address,
    output wire [64*(1<<LOGT)-1:0] switch_write_words,
    output wire [(1<<LOGT)-1:0] switch_write_strobe,
    output wire        switch_write_last,
    input  wire        switch_written,
    output wire        bootstrap_write_valid,
    input  wire        bootstrap_write_ready,
    output wire [63:0] bootstrap_write_address,
    output wire [64*(1<<LOGT)-1:0] bootstrap_write_words,
    output wire [(1<<LOGT)-1:0] bootstrap_write_strobe,
    output wire        bootstrap_write_last,
    input  wire        bootstrap_written
);
  localparam T = 1 << LOGT;
  localparam SLOT = BATCH > 1 ? $clog2(BATCH) : 1;
  localparam BIG_ROWS = (K << (LOGN - LOGT)) + 1;
  localparam SMALL_ROWS = (DIMENSION + T) / T;
  assign switch_beats = BIG_ROWS;
  assign switch_key_beats = 16 * KS_BEATS;
  assign table_beats = 1 << (LOGN - LOGT);
  assign bootstrap_beats = DIMENSION + 1;
  assign bootstrap_key_beats = ((K + 1) << (LOGN - LOGT)) * BSK_BEATS;

  wire word_valid, word_ready;
  wire [63:0] word;
  fetch fetcher (
      .clk(clk), .reset(reset), .start(start), .address(program_address), .words(program_words), .read_valid(fetch_valid),
      .read_ready(fetch_ready), .read_address(fetch_address), .read_beats(fetch_beats), .in_valid(fetch_in_valid),
      .in_word(fetch_in), .word_valid(word_valid), .word(word), .word_ready(word_ready));

  wire term_valid, term_ready, term_first, term_last, is_small, linear_done;
  wire [63:0] term_address, constant, destination, issue_key, issue_table;
  wire [47:0] term_coefficient;
  wire [15:0] issue_src, issue_dst;
  wire [16:0] look_src, look_dst;
  wire [MANY*LOGN-1:0] issue_indices, b_indices;
  wire [$clog2(MANY+1)-1:0] issue_results, b_results;
  wire [15:0] look_last;
  wire switch_push, bootstrap_push, close, waits, switch_hit, bootstrap_hit, switch_full, bootstrap_full;
  wire switch_other_key, bootstrap_other_key, switch_empty, bootstrap_empty;
  decode #(.LOGN(LOGN), .MANY(MANY), .STRIDE_LOG(STRIDE_LOG)) decoder (
      .clk(clk), .reset(reset), .start(start), .words(program_words), .slots(slots), .word_valid(word_valid), .word(word),
      .word_ready(word_ready), .term_valid(term_valid), .term_ready(term_ready), .term_first(term_first),
      .term_last(term_last), .term_address(term_address), .term_coefficient(term_coefficient), .is_small(is_small), .constant(constant),
      .destination(destination), .linear_done(linear_done), .switch_push(switch_push), .bootstrap_push(bootstrap_push),
      .close(close), .waits(waits), .issue_src(issue_src), .issue_dst(issue_dst), .issue_key(issue_key), .issue_table(issue_table),
      .issue_indices(issue_indices),
      .issue_results(issue_results), .look_src(look_src), .look_dst(look_dst), .look_last(look_last), .hit(switch_hit || bootstrap_hit),
      .switch_full(switch_full), .switch_other_key(switch_other_key), .bootstrap_full(bootstrap_full),
      .bootstrap_other_key(bootstrap_other_key), .empty(switch_empty && bootstrap_empty), .done(done), .status(status),
      .offset(offset));

  linear #(.LOGT(LOGT), .ROWS(BIG_ROWS), .SMALL_ROWS(SMALL_ROWS), .SMALL_LANE(DIMENSION % T)) combine (
      .clk(clk), .reset(reset), .term_valid(term_valid), .term_ready(term_ready), .term_first(term_first),
      .term_last(term_last), .term_address(term_address), .term_coefficient(term_coefficient), .is_small(is_small), .constant(constant),
      .destination(destination), .read_valid(linear_valid), .read_ready(linear_ready), .read_address(linear_address),
      .read_beats(linear_beats),
      .in_valid(linear_in_valid), .in_words(linear_in), .write_valid(linear_write_valid),
      .write_ready(linear_write_ready), .write_address(linear_write_address), .write_words(linear_write_words),
      .write_strobe(linear_write_strobe), .write_last(linear_write_last), .write_done(linear_written),
      .done(linear_done));

  wire sb_valid, sb_take, s_pop, bb_valid, bb_take, b_pop;
  wire [SLOT:0] sb_count, bb_count;
  wire [SLOT-1:0] s_entry, b_entry;
  wire [63:0] sb_key, bb_key, b_table;
  wire [15:0] s_src, s_dst, b_src, b_dst;
  queue #(.BATCH(BATCH), .MORE(1)) switches (
      .clk(clk), .reset(reset), .push(switch_push), .close(close), .waits(waits), .src(issue_src), .dst(issue_dst), .last(look_last), .key(issue_key),
      .more(1'b0), .full(switch_full), .other_key(switch_other_key), .open(), .empty(switch_empty), .look_src(look_src),
      .look_dst(look_dst), .look_last(look_last), .hit(switch_hit), .batch_valid(sb_valid), .batch_count(sb_count), .batch_key(sb_key),
      .batch_take(sb_take), .entry(s_entry), .entry_src(s_src), .entry_dst(s_dst), .entry_more(), .pop(s_pop));
  switch_port #(
      .LOGN(LOGN), .LOGT(LOGT), .K(K), .LEVEL(KS_LEVEL), .BASE_LOG(KS_BASE_LOG), .DIMENSION(DIMENSION), .BATCH(BATCH),
      .KEY_BEATS(KS_BEATS), .STRIDE_LOG(STRIDE_LOG)
  ) switcher (
      .clk(clk), .reset(reset), .slots(slots), .batch_valid(sb_valid), .batch_count(sb_count), .batch_key(sb_key),
      .batch_take(sb_take), .entry(s_entry), .entry_src(s_src), .entry_dst(s_dst), .pop(s_pop), .busy(switch_busy),
      .read_valid(switch_valid), .read_ready(switch_ready), .read_address(switch_address), .in_valid(switch_in_valid),
      .in_words(switch_in), .key_valid(switch_key_valid), .key_ready(switch_key_ready),
      .key_address(switch_key_address), .key_in_valid(switch_key_in_valid), .key_in(switch_key_in),
      .write_valid(switch_write_valid), .write_ready(switch_write_ready), .write_address(switch_write_address),
      .write_words(switch_write_words), .write_strobe(switch_write_strobe), .write_last(switch_write_last),
      .write_done(switch_written));

  queue #(.BATCH(BATCH), .MORE(64 + MANY * LOGN + $clog2(MANY + 1))) bootstraps (
      .clk(clk), .reset(reset), .push(bootstrap_push), .close(close), .waits(waits), .src(issue_src), .dst(issue_dst), .last(look_last), .key(issue_key),
      .more({issue_results, issue_indices, issue_table}), .full(bootstrap_full), .other_key(bootstrap_other_key), .open(),
      .empty(bootstrap_empty), .look_src(look_src), .look_dst(look_dst), .look_last(look_last), .hit(bootstrap_hit), .batch_valid(bb_valid),
      .batch_count(bb_count), .batch_key(bb_key), .batch_take(bb_take), .entry(b_entry), .entry_src(b_src),
      .entry_dst(b_dst), .entry_more({b_results, b_indices, b_table}), .pop(b_pop));
  bootstrap_port #(
      .LOGN(LOGN), .LOGT(LOGT), .K(K), .LEVEL(LEVEL), .BASE_LOG(BASE_LOG), .DIMENSION(DIMENSION), .BATCH(BATCH),
      .CENTERED(CENTERED), .MANY(MANY), .KEY_BEATS(BSK_BEATS), .STRIDE_LOG(STRIDE_LOG)
  ) bootstrapper (
      .clk(clk), .reset(reset), .slots(slots), .batch_valid(bb_valid), .batch_count(bb_count), .batch_key(bb_key),
      .batch_take(bb_take), .entry(b_entry), .entry_src(b_src), .entry_dst(b_dst), .entry_table(b_table),
      .entry_indices(b_indices), .entry_results(b_results), .pop(b_pop), .busy(bootstrap_busy), .table_valid(table_valid), .table_ready(table_ready),
      .table_address(table_address), .table_in_valid(table_in_valid), .table_in(table_in), .read_valid(bootstrap_valid),
      .read_ready(bootstrap_ready), .read_address(bootstrap_address), .in_valid(bootstrap_in_valid),
      .in_word(bootstrap_in), .key_valid(bootstrap_key_valid), .key_ready(bootstrap_key_ready),
      .key_address(bootstrap_key_address), .key_in_valid(bootstrap_key_in_valid), .key_in(bootstrap_key_in),
      .write_valid(bootstrap_write_valid), .write_ready(bootstrap_write_ready),
      .write_address(bootstrap_write_address), .write_words(bootstrap_write_words),
      .write_strobe(bootstrap_write_strobe), .write_last(bootstrap_write_last), .write_done(bootstrap_written));
endmodule
`default_nettype wire
