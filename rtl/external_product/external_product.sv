// The product of a decomposed GLWE ciphertext and a GGSW ciphertext: Σ_r Σ_l digit_l(r)·row(l, r), k + 1 polynomials.
// The digits of polynomials r = 0 ..= k come one polynomial after the other, LEVEL digits and T coefficients a clock; the
// product leaves in the same way. LEVEL forward transforms, LEVEL·(k + 1)·T multipliers, one inverse transform.
// The key is transformed, divided by N. It is asked for (`key_poly`, `key_row`) and answers one clock later with the words
// [l][c][lane], lane fastest, l = 0 being the least significant digit, c the column.
// Latency: k polynomials + both transforms + 15 + 2·⌈log2 LEVEL⌉.
`default_nettype none
module external_product #(
    parameter LOGN = 10,
    parameter LOGT = 1,
    parameter K = 1,
    parameter LEVEL = 2
) (
    input  wire                                      clk,
    input  wire                                      reset,
    input  wire                                      start,
    input  wire [64*LEVEL*(1<<LOGT)-1:0]             digits,
    output wire                                      key_start,
    output wire [$clog2(K+1)-1:0]                    key_poly,
    output wire [LOGN-LOGT-1:0]                      key_row,
    input  wire [64*LEVEL*(K+1)*(1<<LOGT)-1:0]       key,
    output wire                                      out_start,
    output wire [64*(1<<LOGT)-1:0]                   out
);
  localparam T = 1 << LOGT;
  localparam LOGM = LOGN - LOGT;
  localparam M = 1 << LOGM;
  localparam DEEP = $clog2(LEVEL);
  localparam ADDED = 13 + 2 * DEEP;  // clocks from a transformed digit to the sum over the levels

  wire [64*LEVEL*T-1:0] values;
  wire [LEVEL-1:0] starts;
  genvar i, c, l, d, m;
  generate
    for (i = 0; i < LEVEL; i = i + 1) begin : g_forward
      ntt #(.LOGN(LOGN), .LOGT(LOGT), .INVERSE(0)) transform (
          .clk(clk), .reset(reset), .start(start), .in(digits[64*T*i+:64*T]), .out_start(starts[i]), .out(values[64*T*i+:64*T]));
    end
  endgenerate

  // Which polynomial and row the transforms give.
  reg [$clog2(K+1)-1:0] next_poly;
  reg [LOGM-1:0] next_row = 0;
  reg [$clog2(K+1)-1:0] poly = 0;
  wire from_start = starts[0];
  assign key_poly = from_start ? next_poly : poly;
  assign key_row = from_start ? {LOGM{1'b0}} : next_row;
  assign key_start = from_start;
  always @(posedge clk) begin
    next_row <= key_row + 1'b1;
    poly     <= key_poly;
    if (reset) next_poly <= 0;
    else if (from_start) next_poly <= next_poly == ($clog2(K + 1))'(K) ? 0 : next_poly + 1'b1;
  end

  wire first, last_start;
  delay #(.WIDTH(1), .DEPTH(ADDED)) to_first (.clk(clk), .in(key_poly == 0), .out(first));
  delay_control #(.DEPTH(ADDED + 2)) to_last (
      .clk(clk), .reset(reset), .in(from_start && key_poly == ($clog2(K + 1))'(K)), .out(last_start));

  // Column c of the sum leaves c polynomials after column 0.
  wire [K:0] leaves;
  reg [K:0] chosen = 1;
  wire [K:0] choice = |leaves ? leaves : chosen;
  always @(posedge clk) chosen <= choice;

  wire [64*T*(K+1)-1:0] late;
  generate
    for (c = 0; c <= K; c = c + 1) begin : g_column
      delay_control #(.DEPTH(c * M)) to_leave (.clk(clk), .reset(reset), .in(last_start), .out(leaves[c]));
      wire [64*T-1:0] total;
      for (l = 0; l < T; l = l + 1) begin : g_lane
        // The products of all levels, added in a tree.
        for (d = 0; d <= DEEP; d = d + 1) begin : g_tree
          wire [64*(LEVEL+1)-1:0] terms;
          localparam WIDTH = (LEVEL + (1 << d) - 1) >> d;
          for (m = 0; m < WIDTH; m = m + 1) begin : g_term
            if (d == 0) begin : g_product
              reg [63:0] value;
              always @(posedge clk) value <= values[64*(T*m+l)+:64];
              gl_mul multiply (
                  .clk(clk), .a(value), .b(key[64*(T*((K+1)*m+c)+l)+:64]), .y(terms[64*m+:64]));
            end else if (2 * m + 1 < (LEVEL + (1 << (d - 1)) - 1) >> (d - 1)) begin : g_add
              gl_addsub add (
                  .clk(clk), .a(g_tree[d-1].terms[128*m+:64]), .b(g_tree[d-1].terms[128*m+64+:64]),
                  .sum(terms[64*m+:64]), .difference());
            end else begin : g_pass
              delay #(.WIDTH(64), .DEPTH(2)) wait2 (
                  .clk(clk), .in(g_tree[d-1].terms[128*m+:64]), .out(terms[64*m+:64]));
            end
          end
        end
        // Added to the same value of the polynomial before.
        wire [63:0] previous;
        gl_addsub accumulate (
            .clk(clk), .a(g_tree[DEEP].terms[63:0]), .b(first ? 64'b0 : previous),
            .sum(total[64*l+:64]), .difference());
        delay #(.WIDTH(64), .DEPTH(M - 2)) keep (.clk(clk), .in(total[64*l+:64]), .out(previous));
      end
      delay #(.WIDTH(64 * T), .DEPTH(c * M)) queue (.clk(clk), .in(total), .out(late[64*T*c+:64*T]));
    end
  endgenerate

  reg [64*T-1:0] leaving;
  integer n;
  always @* begin
    leaving = 0;
    for (n = 0; n <= K; n = n + 1) leaving = leaving | (late[64*T*n+:64*T] & {(64 * T) {choice[n]}});
  end
  ntt #(.LOGN(LOGN), .LOGT(LOGT), .INVERSE(1)) back (
      .clk(clk), .reset(reset), .start(|leaves), .in(leaving), .out_start(out_start), .out(out));
endmodule
`default_nettype wire
