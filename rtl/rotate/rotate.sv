// Multiplies a polynomial by X^e modulo X^N + 1, e in 0..2N, or turns it around: REVERSE gives coefficient e − j at j, which
// is the mask of a sample extraction. T coefficients a clock, in any order of rows.
// Lane l, row t holds coefficient l·M + t, M = N/T. All lanes read one row, t − e mod M; what is left of e rotates lanes,
// and a lane number past T means a sign. `read_row` is combinational; the memory answers one clock later; latency 3 in all.
`default_nettype none
module rotate #(
    parameter LOGN = 10,
    parameter LOGT = 1
) (
    input  wire                    clk,
    input  wire [LOGN:0]           exponent,
    input  wire                    reverse,
    input  wire [LOGN-LOGT-1:0]    row,
    output wire [LOGN-LOGT-1:0]    read_row,
    input  wire [64*(1<<LOGT)-1:0] read,
    output reg  [64*(1<<LOGT)-1:0] out
);
  localparam LOGM = LOGN - LOGT;
  localparam T = 1 << LOGT;
  wire [LOGM-1:0] low = exponent[LOGM-1:0];
  wire borrow = reverse ? low < row : row < low;
  assign read_row = reverse ? low - row : row - low;

  reg [LOGT:0] turn;
  reg backwards;
  always @(posedge clk) begin
    turn      <= exponent[LOGN:LOGM] - (LOGT + 1)'(borrow && reverse) + (LOGT + 1)'(borrow && !reverse);
    backwards <= reverse;
  end

  genvar l;
  generate
    for (l = 0; l < T; l = l + 1) begin : g_lane
      wire [LOGT:0] from = backwards ? turn - (LOGT + 1)'(l) : (LOGT + 1)'(l) - turn;
      reg [63:0] taken;
      reg negative;
      always @(posedge clk) begin
        taken          <= read[64*from[LOGT-1:0]+:64];
        negative       <= from[LOGT];
        out[64*l+:64]  <= negative && taken != 0 ? 64'hFFFFFFFF00000001 - taken : taken;
      end
    end
  endgenerate
endmodule
`default_nettype wire
