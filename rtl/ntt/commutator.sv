// Transposes 2×2 tiles of runs of DEPTH values on a lane pair: (A0 A1; B0 B1) → (A0 B0; A1 B1). Latency DEPTH.
// `start` marks the first value of a frame; frames may follow each other at any distance.
`default_nettype none
module commutator #(
    parameter DEPTH = 1
) (
    input  wire        clk,
    input  wire        start,
    input  wire [63:0] a,
    input  wire [63:0] b,
    output wire [63:0] x,
    output wire [63:0] y
);
  localparam BITS = $clog2(2 * DEPTH);
  reg [BITS-1:0] count = 0;
  wire [BITS-1:0] now = start ? {BITS{1'b0}} : count;
  always @(posedge clk) count <= now + 1'b1;

  wire swap = now[BITS-1];
  wire [63:0] b_late;
  wire [63:0] first = swap ? b_late : a;
  assign y = swap ? a : b_late;
  delay #(.WIDTH(64), .DEPTH(DEPTH)) before_b (.clk(clk), .in(b), .out(b_late));
  delay #(.WIDTH(64), .DEPTH(DEPTH)) after_a (.clk(clk), .in(first), .out(x));
endmodule
`default_nettype wire
