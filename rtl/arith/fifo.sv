// First in, first out, through a memory: what was pushed may be seen two clocks later. `used` counts everything inside; the
// writer sees to it that DEPTH + 1 is not passed.
`default_nettype none
module fifo #(
    parameter WIDTH = 64,
    parameter DEPTH = 16  // a power of two
) (
    input  wire                   clk,
    input  wire                   reset,
    input  wire                   push,
    input  wire [WIDTH-1:0]       in,
    output wire [$clog2(DEPTH):0] used,
    output reg                    valid,
    output reg  [WIDTH-1:0]       out,
    input  wire                   ready
);
  localparam BITS = $clog2(DEPTH);
  reg [WIDTH-1:0] words[0:DEPTH-1];
  reg [BITS:0] from, to;
  wire [BITS:0] stored = to - from;
  wire moves = (!valid || ready) && stored != 0;
  assign used = stored + (BITS + 1)'(valid);
  always @(posedge clk) begin
    if (push) words[to[BITS-1:0]] <= in;
    if (moves) out <= words[from[BITS-1:0]];
    if (reset) begin
      from  <= 0;
      to    <= 0;
      valid <= 0;
    end else begin
      to    <= to + (BITS + 1)'(push);
      from  <= from + (BITS + 1)'(moves);
      valid <= moves || (valid && !ready);
    end
  end
endmodule
`default_nettype wire
