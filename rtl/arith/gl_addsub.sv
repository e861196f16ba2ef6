// sum = a + b and difference = a − b modulo p, for a, b < p. Latency 2.
`default_nettype none
module gl_addsub (
    input  wire        clk,
    input  wire [63:0] a,
    input  wire [63:0] b,
    output reg  [63:0] sum,
    output reg  [63:0] difference
);
  reg [64:0] s, d;
  wire over = s[64] | ((&s[63:32]) & (|s[31:0]));
  always @(posedge clk) begin
    s          <= {1'b0, a} + {1'b0, b};
    d          <= {1'b0, a} - {1'b0, b};
    sum        <= s[63:0] + {32'b0, {32{over}}};
    difference <= d[63:0] - {32'b0, {32{d[64]}}};
  end
endmodule
`default_nettype wire
