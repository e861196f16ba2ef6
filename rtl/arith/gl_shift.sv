// y = x·2^(BASE + Σ_i select[i]·(48 >> i)) modulo p, for x < p; the exponent must not pass 96. Latency 5.
// Two is a root of unity of order 192, so this multiplies by any of the first NTT layers' twiddles.
`default_nettype none
module gl_shift #(
    parameter BASE = 48,
    parameter BITS = 0  // of select, 0 to 5
) (
    input  wire        clk,
    input  wire [63:0] x,
    input  wire [4:0]  select,
    output wire [63:0] y
);
  localparam [4:0] USED = (5'd1 << BITS) - 5'd1;
  wire [4:0] s = select & USED;
  reg [159:0] coarse, fine;
  reg [2:0] rest;
  wire [159:0] start = {96'b0, x} << BASE;
  wire [159:0] by48 = s[0] ? start << 48 : start;
  wire [159:0] by12 = rest[0] ? coarse << 12 : coarse;
  wire [159:0] by6 = rest[1] ? by12 << 6 : by12;
  always @(posedge clk) begin
    coarse <= s[1] ? by48 << 24 : by48;
    rest   <= s[4:2];
    fine   <= rest[2] ? by6 << 3 : by6;
  end
  gl_reduce reduce (.clk(clk), .lo(fine[63:0]), .mid(fine[95:64]), .top(fine[159:96]), .y(y));
endmodule
`default_nettype wire
