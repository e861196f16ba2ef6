// The arithmetic side by side, for its bench.
`default_nettype none
module arith (
    input  wire        clk,
    input  wire [63:0] a,
    input  wire [63:0] b,
    output wire [63:0] sum,
    output wire [63:0] difference,
    output wire [63:0] product
);
  gl_addsub add (.clk(clk), .a(a), .b(b), .sum(sum), .difference(difference));
  gl_mul multiply (.clk(clk), .a(a), .b(b), .y(product));
endmodule
`default_nettype wire
