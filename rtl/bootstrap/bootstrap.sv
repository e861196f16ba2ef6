// Programmable bootstrapping of a batch: modulus switch, X^(−b̃)·table, n steps acc += ((X^ã − 1)·acc) ⊡ GGSW, extraction.
//
// The accumulators of up to BATCH ciphertexts take turns in the one pipeline, so that a step's latency is hidden and a GGSW
// ciphertext is used BATCH times: (k + 1)·N/T clocks for each step of each ciphertext once the batch is large enough.
// A step may begin when polynomial 0 of that ciphertext's previous step is written; later polynomials follow in its pace.
//
// Ciphertexts come one word a clock, mask first (`in_*`), with their extraction indices, up to MANY, at the last word; the batch is run at
// `flush` or when it is full. Tables are asked for by slot, polynomial and row, the key by step, polynomial and row: both
// answer one clock later. A step waits until `key_loaded`, the number of GGSW ciphertexts that have arrived for this batch,
// is above it; the key of step i is no longer read once `key_used` > i. Results leave as k·N/T rows of T mask words (lane l,
// row t is word l·N/T + t of its polynomial) and one row with the body in lane 0; one begins when `out_room`.
`default_nettype none
module bootstrap #(
    parameter LOGN = 10,
    parameter LOGT = 1,
    parameter K = 1,
    parameter LEVEL = 2,
    parameter BASE_LOG = 10,
    parameter DIMENSION = 500,
    parameter BATCH = 4,
    parameter CENTERED = 1,
    parameter MANY = 1,
    parameter SLOT = BATCH > 1 ? $clog2(BATCH) : 1,  // derived, as the next two: widths of ports
    parameter POLY = $clog2(K + 1),
    parameter STEP = $clog2(DIMENSION + 2)
) (
    input  wire                                clk,
    input  wire                                reset,
    input  wire                                in_valid,
    output wire                                in_ready,
    input  wire [63:0]                         in_word,
    input  wire [MANY*LOGN-1:0]                in_index,
    input  wire [$clog2(MANY+1)-1:0]           in_results,
    input  wire                                flush,
    output wire [SLOT-1:0]                     table_slot,
    output wire [POLY-1:0]                     table_poly,
    output wire [LOGN-LOGT-1:0]                table_row,
    input  wire [64*(1<<LOGT)-1:0]             table_words,
    input  wire [STEP-1:0]                     key_loaded,
    output reg  [STEP-1:0]                     key_used,
    output wire [POLY-1:0]                     key_poly,
    output wire [LOGN-LOGT-1:0]                key_row,
    input  wire [64*LEVEL*(K+1)*(1<<LOGT)-1:0] key_words,
    input  wire                                out_room,
    output wire                                out_valid,
    output wire [SLOT-1:0]                     out_slot,
    output wire                                out_last,
    output wire [64*(1<<LOGT)-1:0]             out_words,
    output wire                                idle
);
  localparam T = 1 << LOGT;
  localparam LOGM = LOGN - LOGT;
  localparam PLACE = SLOT + POLY + LOGM;
  localparam [1:0] LOAD = 0, TURN = 1, LOOP = 2, TAKE = 3;

  // Arrival: exponents and extraction indices.
  reg [1:0] phase;
  reg [SLOT:0] count;
  reg [STEP-1:0] word;
  wire arriving = in_valid & in_ready;
  wire at_body = word == STEP'(DIMENSION);
  localparam RESULT = $clog2(MANY + 1);
  reg [MANY*LOGN-1:0] index[0:BATCH-1];
  reg [RESULT-1:0] results[0:BATCH-1];
  reg [RESULT-1:0] result;
  reg [2:0] settle;
  assign in_ready = phase == LOAD && count < (SLOT + 1)'(BATCH);
  assign idle = phase == LOAD && count == 0 && word == 0;

  wire switched;
  wire [LOGN:0] switched_exponent, exponent_next;
  wire [SLOT+STEP-1:0] switched_at;
  modulus_switch #(.LOGN(LOGN), .CENTERED(CENTERED)) switch (
      .clk(clk), .reset(reset), .valid(arriving), .body(at_body), .word(in_word),
      .out_valid(switched), .exponent(switched_exponent));
  delay #(.WIDTH(SLOT + STEP), .DEPTH(3)) to_switched (
      .clk(clk), .in({count[SLOT-1:0], word}), .out(switched_at));

  // The walk over (step, slot, polynomial, row) of every phase.
  reg [SLOT-1:0] slot;
  reg [POLY-1:0] poly;
  reg [LOGM-1:0] row;
  reg running;
  reg [LOGN:0] exponent;
  reg [SLOT:0] outstanding;  // jobs whose polynomial 0 is not written yet
  reg [SLOT:0] unwritten;  // jobs that are not written yet
  reg [SLOT-1:0] next_slot;
  reg [STEP-1:0] next_step;
  reg finished;  // every job of this phase was begun

  wire [STEP-1:0] job_steps = phase == LOOP ? STEP'(DIMENSION) : 1;
  wire body_only = phase == TAKE && poly == POLY'(K);
  wire last_row = &row | body_only;
  wire last_of_job = running && last_row && poly == POLY'(K);
  wire may_begin = phase != LOAD && !finished && (!running || last_of_job) && settle == 0 &&
      (phase != LOOP || (outstanding < count && key_loaded > next_step)) && (phase != TAKE || out_room);
  // A ciphertext stays for all of its results.
  wire stays = phase == TAKE && result + 1'b1 != results[next_slot];
  wire drained = finished && !running && settle == 0 && unwritten == 0;
  wire slot_end = {1'b0, next_slot} + 1'b1 == count && !stays;

  memory #(.WIDTH(LOGN + 1), .DEPTH(1 << (SLOT + STEP))) exponents (
      .clk(clk), .write(switched), .write_at(switched_at), .in(switched_exponent),
      .read_at({next_slot, phase == TURN ? STEP'(DIMENSION) : next_step}), .out(exponent_next));

  wire begins_job = may_begin && phase == LOOP;
  wire first_written, job_written;
  always @(posedge clk) begin
    if (reset) begin
      phase <= LOAD;
      count <= 0;
      word <= 0;
      running <= 0;
      settle <= 0;
      outstanding <= 0;
      unwritten <= 0;
      finished <= 0;
      next_slot <= 0;
      next_step <= 0;
      result <= 0;
    end else begin
      if (settle != 0) settle <= settle - 1'b1;
      if (arriving) begin
        word <= at_body ? 0 : word + 1'b1;
        if (at_body) begin
          count <= count + 1'b1;
          index[count[SLOT-1:0]]   <= in_index;
          results[count[SLOT-1:0]] <= in_results;
        end
      end
      // From phase to phase; the pipeline settles in between.
      if (phase == LOAD) begin
        if (word == 0 && !arriving && (count == (SLOT + 1)'(BATCH) || (flush && count != 0))) begin
          phase  <= TURN;
          settle <= 7;
        end
      end else if (drained) begin
        phase     <= phase + 1'b1;
        finished  <= 0;
        settle    <= 7;
        if (phase == TAKE) count <= 0;
      end
      // Within a phase.
      if (running) begin
        row <= row + 1'b1;
        if (last_row) poly <= poly + 1'b1;
        if (last_of_job) begin
          running <= 0;
          if (finished) settle <= 7;
        end
      end
      if (may_begin) begin
        running   <= 1;
        row       <= 0;
        poly      <= 0;
        slot      <= next_slot;
        result    <= stays ? result + 1'b1 : 0;
        next_slot <= slot_end ? 0 : next_slot + SLOT'(!stays);
        if (slot_end) next_step <= next_step + 1'b1 == job_steps ? 0 : next_step + 1'b1;
        finished <= slot_end && next_step + 1'b1 == job_steps;
        case (phase)
          TURN: exponent <= -exponent_next;
          LOOP: exponent <= exponent_next;
          default: exponent <= {1'b0, index[next_slot][LOGN*result+:LOGN]};
        endcase
      end
      outstanding <= outstanding + (SLOT + 1)'(begins_job) - (SLOT + 1)'(first_written);
      unwritten <= unwritten + (SLOT + 1)'(begins_job) - (SLOT + 1)'(job_written);
    end
  end

  // Accumulators, three copies for three readers: straight, turned, and where the product is added.
  wire [LOGM-1:0] turned_row;
  wire [64*T-1:0] straight, unturned, old, turned, difference, product, sum;
  reg [64*T-1:0] product_late;
  wire write;
  wire [PLACE-1:0] write_at, product_at;
  wire [64*T-1:0] written = phase == TURN ? turned : sum;
  memory #(.WIDTH(64 * T), .DEPTH(1 << PLACE)) acc_straight (
      .clk(clk), .write(write), .write_at(write_at), .in(written), .read_at({slot, poly, row}), .out(straight));
  memory #(.WIDTH(64 * T), .DEPTH(1 << PLACE)) acc_turned (
      .clk(clk), .write(write), .write_at(write_at), .in(written), .read_at({slot, poly, turned_row}), .out(unturned));
  memory #(.WIDTH(64 * T), .DEPTH(1 << PLACE)) acc_old (
      .clk(clk), .write(write), .write_at(write_at), .in(written), .read_at(product_at), .out(old));

  rotate #(.LOGN(LOGN), .LOGT(LOGT)) turn (
      .clk(clk), .exponent(exponent), .reverse(phase == TAKE), .row(row), .read_row(turned_row),
      .read(phase == TURN ? table_words : unturned), .out(turned));
  assign table_slot = slot;
  assign table_poly = poly;
  assign table_row = turned_row;

  // (X^ã − 1)·acc, its digits, and the product.
  wire [64*T-1:0] straight_late;
  wire [64*LEVEL*T-1:0] digits;
  wire digits_start, product_start, key_start;
  delay #(.WIDTH(64 * T), .DEPTH(2)) align (.clk(clk), .in(straight), .out(straight_late));
  genvar l, i;
  generate
    for (l = 0; l < T; l = l + 1) begin : g_lane
      wire [64*LEVEL-1:0] mine;
      gl_addsub subtract (
          .clk(clk), .a(turned[64*l+:64]), .b(straight_late[64*l+:64]), .sum(), .difference(difference[64*l+:64]));
      decompose #(.LEVEL(LEVEL), .BASE_LOG(BASE_LOG)) split (.clk(clk), .a(difference[64*l+:64]), .digits(mine));
      for (i = 0; i < LEVEL; i = i + 1) begin : g_level
        assign digits[64*(T*i+l)+:64] = mine[64*i+:64];
      end
      gl_addsub add (
          .clk(clk), .a(product_late[64*l+:64]), .b(old[64*l+:64]), .sum(sum[64*l+:64]), .difference());
    end
  endgenerate
  delay_control #(.DEPTH(8)) to_digits (
      .clk(clk), .reset(reset), .in(running && phase == LOOP && row == 0), .out(digits_start));
  external_product #(.LOGN(LOGN), .LOGT(LOGT), .K(K), .LEVEL(LEVEL)) multiply (
      .clk(clk), .reset(reset), .start(digits_start), .digits(digits), .key_start(key_start), .key_poly(key_poly),
      .key_row(key_row), .key(key_words), .out_start(product_start), .out(product));

  // Jobs that have read the key, in order.
  reg [SLOT-1:0] key_slot;
  reg key_reading;
  wire key_last = (key_reading || key_start) && key_poly == POLY'(K) && &key_row;
  always @(posedge clk) begin
    key_reading <= !reset && (key_start || (key_reading && !(&key_row)));
    if (reset || phase == LOAD) begin
      key_slot <= 0;
      key_used <= 0;
    end else if (key_last) begin
      key_slot <= {1'b0, key_slot} + 1'b1 == count ? 0 : key_slot + 1'b1;
      if ({1'b0, key_slot} + 1'b1 == count) key_used <= key_used + 1'b1;
    end
  end

  // Jobs that leave the product, in order.
  reg [SLOT-1:0] product_slot;
  reg [POLY-1:0] product_poly;
  reg [LOGM-1:0] product_next;
  reg product_busy;
  wire product_valid = product_start | product_busy;
  wire [LOGM-1:0] product_row = product_start ? {LOGM{1'b0}} : product_next;
  wire product_last = product_valid && &product_row;
  wire product_ends = product_last && product_poly == POLY'(K);
  assign product_at = {product_slot, product_poly, product_row};
  always @(posedge clk) begin
    product_late <= product;
    product_next <= product_row + 1'b1;
    if (reset || phase != LOOP) begin
      product_busy <= 0;
      product_slot <= 0;
      product_poly <= 0;
    end else begin
      product_busy <= product_valid && !product_last;
      if (product_last) product_poly <= product_ends ? 0 : product_poly + 1'b1;
      if (product_ends) product_slot <= {1'b0, product_slot} + 1'b1 == count ? 0 : product_slot + 1'b1;
    end
  end
  delay_control #(.WIDTH(2), .DEPTH(3)) to_written (
      .clk(clk), .reset(reset), .in({product_last && product_poly == 0, product_ends}), .out({first_written, job_written}));
  delay_control #(.WIDTH(PLACE + 1), .DEPTH(3)) to_write (
      .clk(clk), .reset(reset),
      .in(phase == TURN ? {running, slot, poly, row} : {product_valid && phase == LOOP, product_at}),
      .out({write, write_at}));
  delay_control #(.WIDTH(SLOT + 2), .DEPTH(3)) to_out (
      .clk(clk), .reset(reset), .in({running && phase == TAKE, slot, last_of_job}), .out({out_valid, out_slot, out_last}));
  assign out_words = turned;
endmodule
`default_nettype wire
