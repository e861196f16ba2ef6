// out = in of DEPTH clocks ago. From four clocks on a ring buffer in memory.
`default_nettype none
module delay #(
    parameter WIDTH = 64,
    parameter DEPTH = 1
) (
    input  wire             clk,
    input  wire [WIDTH-1:0] in,
    output wire [WIDTH-1:0] out
);
  generate
    if (DEPTH == 0) begin : g_wire
      assign out = in;
    end else if (DEPTH < 4) begin : g_registers
      reg [WIDTH*DEPTH-1:0] r = 0;
      always @(posedge clk) r <= (WIDTH * DEPTH)'({r, in});
      assign out = r[WIDTH*DEPTH-1-:WIDTH];
    end else if (DEPTH > 256 && WIDTH < 16) begin : g_halves
      // Yosys has no small memory as deep as this, and a block would be wasted.
      wire [WIDTH-1:0] middle;
      delay #(.WIDTH(WIDTH), .DEPTH(DEPTH / 2)) first (.clk(clk), .in(in), .out(middle));
      delay #(.WIDTH(WIDTH), .DEPTH(DEPTH - DEPTH / 2)) last (.clk(clk), .in(middle), .out(out));
    end else begin : g_ring
      localparam BITS = $clog2(DEPTH - 1);
      reg [WIDTH-1:0] ring[0:(1<<BITS)-1];
      reg [BITS-1:0] at = 0;
      reg [WIDTH-1:0] q = 0;
      always @(posedge clk) begin
        q        <= ring[at];
        ring[at] <= in;
        at       <= at == BITS'(DEPTH - 2) ? {BITS{1'b0}} : at + 1'b1;
      end
      assign out = q;
      integer i;
      initial for (i = 0; i < (1 << BITS); i = i + 1) ring[i] = 0;
    end
  endgenerate
endmodule
`default_nettype wire
