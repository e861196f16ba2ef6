// y = lo + mid·2^64 + top·2^96 modulo p = 2^64 − 2^32 + 1, for top < p; y < p. Latency 3.
// Because 2^64 = 2^32 − 1 and 2^96 = −1, that is lo + mid·(2^32 − 1) − top, which lies in −p .. 2p.
`default_nettype none
module gl_reduce (
    input  wire        clk,
    input  wire [63:0] lo,
    input  wire [31:0] mid,
    input  wire [63:0] top,
    output reg  [63:0] y
);
  reg [64:0] difference;
  reg [63:0] product;
  reg [64:0] sum;
  reg        borrow;
  always @(posedge clk) begin
    difference <= {1'b0, lo} - {1'b0, top};
    product    <= {mid, 32'b0} - {32'b0, mid};
    sum        <= {1'b0, difference[63:0]} + {1'b0, product};
    borrow     <= difference[64];
  end

  // Too large: subtract p, which adds 2^32 − 1 to the low word. Negative: add p.
  wire carry = sum[64];
  wire above = (&sum[63:32]) & (|sum[31:0]);
  wire less  = (carry | above) & ~borrow;
  wire more  = borrow & ~carry;
  always @(posedge clk) y <= sum[63:0] + {{32{more}}, less ? 32'hFFFFFFFF : {31'b0, more}};
endmodule
`default_nettype wire
