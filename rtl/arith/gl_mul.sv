// y = a·b modulo p, for a, b < p. Latency 12, one product a clock, 9 multipliers of 17 bits.
// Karatsuba's identity with differences, twice: x1·y0 + x0·y1 = x1·y1 + x0·y0 − (x1 − x0)·(y1 − y0).
`default_nettype none
// p = a·b, signed; input, product and output registers as in a DSP slice. Latency 3.
module dsp_mul (
    input  wire               clk,
    input  wire signed [16:0] a,
    input  wire signed [16:0] b,
    output reg  signed [33:0] p
);
  reg signed [16:0] x, y;
  reg signed [33:0] m;
  always @(posedge clk) begin
    x <= a;
    y <= b;
    m <= x * y;
    p <= m;
  end
endmodule

// p = a·b, unsigned. Latency 6.
module mul32 (
    input  wire        clk,
    input  wire [31:0] a,
    input  wire [31:0] b,
    output reg  [63:0] p
);
  reg [31:0] a1, b1;
  reg signed [16:0] da, db;
  always @(posedge clk) begin
    a1 <= a;
    b1 <= b;
    da <= $signed({1'b0, a[31:16]}) - $signed({1'b0, a[15:0]});
    db <= $signed({1'b0, b[31:16]}) - $signed({1'b0, b[15:0]});
  end
  wire signed [33:0] low, high, mixed;
  dsp_mul m_low (.clk(clk), .a({1'b0, a1[15:0]}), .b({1'b0, b1[15:0]}), .p(low));
  dsp_mul m_high (.clk(clk), .a({1'b0, a1[31:16]}), .b({1'b0, b1[31:16]}), .p(high));
  dsp_mul m_mixed (.clk(clk), .a(da), .b(db), .p(mixed));
  // The middle term is a sum of two products of 16 bits, hence not negative.
  reg [32:0] middle;
  reg [63:0] outer;
  wire signed [34:0] inner = $signed({3'b0, low[31:0]}) + $signed({3'b0, high[31:0]}) - $signed({mixed[33], mixed});
  always @(posedge clk) begin
    middle <= inner[32:0];
    outer  <= {high[31:0], low[31:0]};
    p      <= outer + {15'b0, middle, 16'b0};
  end
endmodule

module gl_mul (
    input  wire        clk,
    input  wire [63:0] a,
    input  wire [63:0] b,
    output wire [63:0] y
);
  reg [63:0] a1, b1;
  reg [32:0] da, db;
  always @(posedge clk) begin
    a1 <= a;
    b1 <= b;
    da <= {1'b0, a[63:32]} - {1'b0, a[31:0]};
    db <= {1'b0, b[63:32]} - {1'b0, b[31:0]};
  end
  // The differences enter as absolute value and sign.
  wire [31:0] aa = da[32] ? -da[31:0] : da[31:0];
  wire [31:0] ab = db[32] ? -db[31:0] : db[31:0];
  wire [63:0] low, high, mixed;
  mul32 m_low (.clk(clk), .a(a1[31:0]), .b(b1[31:0]), .p(low));
  mul32 m_high (.clk(clk), .a(a1[63:32]), .b(b1[63:32]), .p(high));
  mul32 m_mixed (.clk(clk), .a(aa), .b(ab), .p(mixed));
  reg [5:0] sign;
  always @(posedge clk) sign <= {sign[4:0], da[32] ^ db[32]};

  reg [64:0] middle;
  reg [127:0] outer, product;
  wire [64:0] straight = {1'b0, low} + {1'b0, high};
  always @(posedge clk) begin
    middle  <= sign[5] ? straight + {1'b0, mixed} : straight - {1'b0, mixed};
    outer   <= {high, low};
    product <= outer + {31'b0, middle, 32'b0};
  end
  gl_reduce reduce (.clk(clk), .lo(product[63:0]), .mid(product[95:64]), .top({32'b0, product[127:96]}), .y(y));
endmodule
`default_nettype wire
