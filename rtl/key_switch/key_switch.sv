// Key switch of a batch modulo p: (0, …, 0, b) − Σ_i Σ_l digit_l(a_i)·K_(i,l), from k·N + 1 words to n + 1.
//
// At `start` COUNT ciphertexts follow on `in_*`, each k·N/T rows of T mask words and a row with the body in lane 0. For every
// mask word i in the order of arrival and every row w of the result, the key gives LEVEL·T words [l][lane], l = 0 the least
// significant digit, lane of result word w·T + lane; a row of the key serves all ciphertexts of the batch, one a clock. So
// a batch takes k·N·⌈(n + 1)/T⌉ clocks a ciphertext, and the key comes at one row every `count` clocks.
// Digits are small: a product is a few sums of shifted key words, without multipliers. Sums are kept as integers of 96 bits and
// reduced once. Results leave ciphertext after ciphertext, ⌈(n + 1)/T⌉ rows each, while `out_room`.
`default_nettype none
module key_switch #(
    parameter LOGN = 10,
    parameter LOGT = 1,
    parameter K = 1,
    parameter LEVEL = 4,
    parameter BASE_LOG = 4,
    parameter DIMENSION = 500,
    parameter BATCH = 4,
    parameter SLOT = BATCH > 1 ? $clog2(BATCH) : 1  // derived
) (
    input  wire                        clk,
    input  wire                        reset,
    input  wire                        start,
    input  wire [SLOT:0]               count,
    output wire                        idle,
    input  wire                        in_valid,
    input  wire [64*(1<<LOGT)-1:0]     in_words,
    input  wire                        key_push,
    input  wire [64*LEVEL*(1<<LOGT)-1:0] key_words,
    output wire                        key_pop,
    output wire                        out_valid,
    output wire [64*(1<<LOGT)-1:0]     out_words,
    output wire                        out_last,
    input  wire                        out_room
);
  localparam T = 1 << LOGT;
  localparam ROWS = K << (LOGN - LOGT);  // of a mask
  localparam WIDE = (DIMENSION + T) / T;  // rows of a result
  localparam ROW = $clog2(ROWS + 1);
  localparam WORD = $clog2(WIDE + 1);
  localparam ACC = 96;
  localparam KEY_ROWS = 256;
  localparam [1:0] WAIT = 0, LOAD = 1, SUM = 2, LEAVE = 3;

  reg [1:0] phase;
  reg [SLOT:0] batch;
  reg [ROW-1:0] row;
  reg [LOGT:0] lane;
  reg [WORD-1:0] word;
  reg [SLOT-1:0] slot;
  reg [3:0] settle;
  reg [63:0] body[0:BATCH-1];
  wire last_slot = {1'b0, slot} + 1'b1 == batch;
  wire last_word = word == WORD'(WIDE - 1);
  wire last_lane = lane == (LOGT + 1)'(T - 1);
  assign idle = phase == WAIT;

  // Rows of the key that have come and are not spoken for.
  reg [$clog2(KEY_ROWS):0] rows;
  wire go = phase == SUM && settle == 0 && (rows != 0 || slot != 0);
  wire spoken = go && slot == 0;
  wire leaving = phase == LEAVE && settle == 0;
  wire leaves = leaving && out_room;
  always @(posedge clk) begin
    rows <= reset ? 0 : rows + ($clog2(KEY_ROWS) + 1)'(key_push) - ($clog2(KEY_ROWS) + 1)'(spoken);
    if (settle != 0) settle <= settle - 1'b1;
    if (reset) begin
      phase  <= WAIT;
      settle <= 0;
    end else case (phase)
      WAIT: if (start) begin
        phase <= LOAD;
        batch <= count;
        row   <= 0;
        slot  <= 0;
        word  <= 0;
        lane  <= 0;
      end
      LOAD: if (in_valid) begin
        row <= row == ROW'(ROWS) ? 0 : row + 1'b1;
        if (row == ROW'(ROWS)) begin
          body[slot] <= in_words[63:0];
          slot <= last_slot ? 0 : slot + 1'b1;
          if (last_slot) phase <= SUM;
        end
      end
      SUM: if (go) begin
        slot <= last_slot ? 0 : slot + 1'b1;
        if (last_slot) begin
          word <= last_word ? 0 : word + 1'b1;
          if (last_word) begin
            lane <= last_lane ? 0 : lane + 1'b1;
            if (last_lane) begin
              row <= row + 1'b1;
              if (row == ROW'(ROWS - 1)) begin
                phase  <= LEAVE;
                settle <= 12;
              end
            end
          end
        end
      end
      default: if (leaves) begin
        word <= last_word ? 0 : word + 1'b1;
        if (last_word) begin
          slot <= last_slot ? 0 : slot + 1'b1;
          if (last_slot) phase <= WAIT;
        end
      end
    endcase
  end

  // The word of the mask and its digits: clocks 1 and 4 after `go`.
  wire [64*T-1:0] mask_row;
  memory #(.WIDTH(64 * T), .DEPTH(1 << (SLOT + ROW))) masks (
      .clk(clk), .write(phase == LOAD && in_valid), .write_at({slot[SLOT-1:0], row}), .in(in_words),
      .read_at({slot[SLOT-1:0], row}), .out(mask_row));
  reg [LOGT:0] lane_late;
  always @(posedge clk) lane_late <= lane;
  wire [64*LEVEL-1:0] digits;
  decompose #(.LEVEL(LEVEL), .BASE_LOG(BASE_LOG)) split (
      .clk(clk), .a(mask_row[64*lane_late[LOGT-1:0]+:64]), .digits(digits));

  localparam AT = SLOT + WORD;
  wire go4, first4, pop4, go8, first7;
  wire [AT-1:0] at7, at8;
  wire [AT-1:0] at = {slot[SLOT-1:0], word};
  delay_control #(.WIDTH(3), .DEPTH(4)) to4 (
      .clk(clk), .reset(reset), .in({go, row == 0 && lane == 0, go && last_slot}), .out({go4, first4, pop4}));
  delay_control #(.DEPTH(4)) to8 (.clk(clk), .reset(reset), .in(go4), .out(go8));
  delay #(.WIDTH(1), .DEPTH(3)) first_to7 (.clk(clk), .in(first4), .out(first7));
  delay #(.WIDTH(AT), .DEPTH(7)) at_to7 (.clk(clk), .in(at), .out(at7));
  delay #(.WIDTH(AT), .DEPTH(1)) at_to8 (.clk(clk), .in(at7), .out(at8));

  wire [64*LEVEL*T-1:0] key;
  fifo #(.WIDTH(64 * LEVEL * T), .DEPTH(KEY_ROWS)) keys (
      .clk(clk), .reset(reset), .push(key_push), .in(key_words), .used(), .valid(), .out(key), .ready(pop4));
  assign key_pop = pop4;

  // Products, sums over the levels (clock 7), and the sum over i (clock 8).
  localparam HALF = (BASE_LOG + 1) / 2;
  localparam PRODUCT = 64 + BASE_LOG + 2;
  wire [ACC*T-1:0] so_far, after;
  reg first8;
  always @(posedge clk) first8 <= first7;
  memory #(.WIDTH(ACC * T), .DEPTH(1 << AT)) sums (
      .clk(clk), .write(go8), .write_at(at8), .in(after), .read_at(leaving ? at : at7), .out(so_far));
  genvar l, i;
  generate
    for (l = 0; l < T; l = l + 1) begin : g_lane
      wire signed [PRODUCT-1:0] products[0:LEVEL-1];
      for (i = 0; i < LEVEL; i = i + 1) begin : g_level
        // Back from a residue to a small integer.
        wire [63:0] residue = digits[64*i+:64];
        wire [63:0] whole = residue + {32'b0, {32{residue[63]}}};
        wire [BASE_LOG:0] digit = whole[BASE_LOG:0];
        wire [63:0] k = key[64*(T*i+l)+:64];
        reg signed [PRODUCT-1:0] low, high, product;
        integer j;
        reg signed [PRODUCT-1:0] low_sum, high_sum;
        always @* begin
          low_sum  = 0;
          high_sum = 0;
          for (j = 0; j < HALF; j = j + 1)
          if (digit[j]) low_sum = low_sum + $signed(PRODUCT'(k) << j);
          for (j = HALF; j < BASE_LOG; j = j + 1)
          if (digit[j]) high_sum = high_sum + $signed(PRODUCT'(k) << j);
          if (digit[BASE_LOG]) high_sum = high_sum - $signed(PRODUCT'(k) << BASE_LOG);
        end
        always @(posedge clk) begin
          low     <= low_sum;
          high    <= high_sum;
          product <= low + high;
        end
        assign products[i] = product;
      end
      reg signed [ACC-1:0] level_sum, total;
      integer m;
      always @* begin
        level_sum = 0;
        for (m = 0; m < LEVEL; m = m + 1) level_sum = level_sum + ACC'(products[m]);
      end
      always @(posedge clk) total <= level_sum;
      // Total is there in clock 7; the sum so far is read then and there in clock 8.
      reg signed [ACC-1:0] total8;
      always @(posedge clk) total8 <= total;
      wire mine = at8[WORD-1:0] == WORD'(DIMENSION / T) && l == DIMENSION % T;
      wire [ACC-1:0] begin_with = mine ? ACC'(body[at8[AT-1:WORD]]) : 0;
      assign after[ACC*l+:ACC] = (first8 ? begin_with : so_far[ACC*l+:ACC]) - total8;

      // Leaving: 2^30·p makes the sum positive.
      wire [ACC-1:0] lifted = so_far[ACC*l+:ACC] + {2'b0, 64'hFFFFFFFF00000001, 30'b0};
      reg [ACC-1:0] positive;
      always @(posedge clk) positive <= lifted;
      gl_reduce reduce (
          .clk(clk), .lo(positive[63:0]), .mid(positive[95:64]), .top(64'b0), .y(out_words[64*l+:64]));
    end
  endgenerate
  delay_control #(.WIDTH(2), .DEPTH(5)) to_out (
      .clk(clk), .reset(reset), .in({leaves, leaves && last_word}), .out({out_valid, out_last}));
endmodule
`default_nettype wire
