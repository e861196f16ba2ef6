// One write port and one read port, which answers one clock later and gives the old word at the address that is written.
`default_nettype none
module memory #(
    parameter WIDTH = 64,
    parameter DEPTH = 1024
) (
    input  wire                     clk,
    input  wire                     write,
    input  wire [$clog2(DEPTH)-1:0] write_at,
    input  wire [WIDTH-1:0]         in,
    input  wire [$clog2(DEPTH)-1:0] read_at,
    output reg  [WIDTH-1:0]         out
);
  reg [WIDTH-1:0] words[0:DEPTH-1];
  always @(posedge clk) begin
    if (write) words[write_at] <= in;
    out <= words[read_at];
  end
endmodule
`default_nettype wire
