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

// Low after a reset until what enters a pipe of DEPTH clocks after it has come to the end.
module fresh #(
    parameter DEPTH = 1
) (
    input  wire clk,
    input  wire reset,
    output wire out
);
  generate
    if (DEPTH == 0) begin : g_always
      assign out = 1'b1;
    end else begin : g_count
      localparam BITS = $clog2(DEPTH + 1);
      reg [BITS-1:0] age = 0;
      assign out = age == BITS'(DEPTH);
      always @(posedge clk) age <= reset ? {BITS{1'b0}} : age + BITS'(!out);
    end
  endgenerate
endmodule

// A delay of signals that begin or end something: none that entered before a reset comes out. A ring in memory cannot be
// cleared in one clock, so its outputs are held low instead.
module delay_control #(
    parameter WIDTH = 1,
    parameter DEPTH = 1
) (
    input  wire             clk,
    input  wire             reset,
    input  wire [WIDTH-1:0] in,
    output wire [WIDTH-1:0] out
);
  wire valid;
  wire [WIDTH-1:0] late;
  delay #(.WIDTH(WIDTH), .DEPTH(DEPTH)) ring (.clk(clk), .in(in), .out(late));
  fresh #(.DEPTH(DEPTH)) since_reset (.clk(clk), .reset(reset), .out(valid));
  assign out = late & {WIDTH{valid}};
endmodule
`default_nettype wire
