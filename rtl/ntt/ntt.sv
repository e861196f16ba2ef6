// Streaming negacyclic transform modulo p and X^N + 1 (INVERSE = 0), or N times its inverse (INVERSE = 1): T values a clock,
// N/T clocks a polynomial, polynomials back to back. `start` marks a polynomial's first clock.
// Coefficients: lane l at clock t holds number l·N/T + t. Values, in the order of the tree (plan.svh): lane l at clock t
// holds number 2·(⌊l/2⌋·N/T + t) + l mod 2. Memory N − T words; multipliers T·⌈(log2 N − 5)/6⌉ (none at N <= 32).
// Latency N/T − 1 + 7·log2 N + 13·⌈(log2 N − 5)/6⌉. A polynomial that began before a reset leaves no `out_start`; inside, a
// later start overrules an earlier one, so that nothing else need be cleared.
`default_nettype none
module ntt #(
    parameter LOGN = 10,
    parameter LOGT = 1,
    parameter INVERSE = 0
) (
    input  wire                   clk,
    input  wire                   reset,
    input  wire                   start,
    input  wire [64*(1<<LOGT)-1:0] in,
    output wire                   out_start,
    output wire [64*(1<<LOGT)-1:0] out
);
  `include "plan.svh"
  genvar i;
  generate
    for (i = 0; i < LOGN; i = i + 1) begin : g_step
      localparam LAYER = INVERSE != 0 ? LOGN - 1 - i : i;
      // A barrier stands before the first layer of a group, and after it on the way back.
      localparam BARRIER = LAYER != 0 && group_of(LAYER) == LAYER;
      wire from_start, middle_start, to_start;
      wire [64*T-1:0] from, middle, to;
      if (i == 0) begin : g_first
        assign from = in;
        assign from_start = start;
      end else begin : g_next
        assign from = g_step[i-1].to;
        assign from_start = g_step[i-1].to_start;
      end
      if (BARRIER && INVERSE == 0) begin : g_barrier_first
        barrier #(.LOGN(LOGN), .LOGT(LOGT), .LAYER(LAYER), .INVERSE(0)) scale (
            .clk(clk), .start(from_start), .in(from), .out_start(middle_start), .out(middle));
        layer #(.LOGN(LOGN), .LOGT(LOGT), .LAYER(LAYER), .INVERSE(0)) meet (
            .clk(clk), .start(middle_start), .in(middle), .out_start(to_start), .out(to));
      end else if (BARRIER) begin : g_barrier_last
        layer #(.LOGN(LOGN), .LOGT(LOGT), .LAYER(LAYER), .INVERSE(1)) meet (
            .clk(clk), .start(from_start), .in(from), .out_start(middle_start), .out(middle));
        barrier #(.LOGN(LOGN), .LOGT(LOGT), .LAYER(LAYER), .INVERSE(1)) scale (
            .clk(clk), .start(middle_start), .in(middle), .out_start(to_start), .out(to));
      end else begin : g_plain
        layer #(.LOGN(LOGN), .LOGT(LOGT), .LAYER(LAYER), .INVERSE(INVERSE)) meet (
            .clk(clk), .start(from_start), .in(from), .out_start(to_start), .out(to));
      end
    end
  endgenerate
  assign out = g_step[LOGN-1].to;
  wire valid;
  fresh #(.DEPTH(M - 1 + 7 * LOGN + 13 * (LOGN / 6))) since_reset (.clk(clk), .reset(reset), .out(valid));
  assign out_start = g_step[LOGN-1].to_start && valid;
endmodule
`default_nettype wire
