// Fetches a program's words ahead of the decoder, BURST words a request, at most DEPTH words in the queue or on their way.
`default_nettype none
module fetch #(
    parameter BURST = 16,
    parameter DEPTH = 64
) (
    input  wire        clk,
    input  wire        reset,
    input  wire        start,
    input  wire [63:0] address,
    input  wire [31:0] words,
    output reg         read_valid,
    input  wire        read_ready,
    output reg  [63:0] read_address,
    output reg  [31:0] read_beats,
    input  wire        in_valid,
    input  wire [63:0] in_word,
    output wire        word_valid,
    output wire [63:0] word,
    input  wire        word_ready
);
  reg [31:0] left, asked, used;
  reg [63:0] next;
  wire [31:0] beats = left < BURST ? left : BURST;
  wire asks = left != 0 && !read_valid && asked - used + BURST <= DEPTH;
  always @(posedge clk) begin
    if (reset || start) begin
      left  <= reset ? 0 : words;
      asked <= 0;
      used  <= 0;
      next  <= address;
      read_valid <= 0;
    end else begin
      used <= used + 32'(word_valid && word_ready);
      if (asks) begin
        read_valid   <= 1;
        read_address <= next;
        read_beats   <= beats;
        next         <= next + {29'b0, beats, 3'b0};
        left         <= left - beats;
        asked        <= asked + beats;
      end else if (read_ready) read_valid <= 0;
    end
  end
  fifo #(.WIDTH(64), .DEPTH(DEPTH)) queue (
      .clk(clk), .reset(reset || start), .push(in_valid), .in(in_word), .used(), .valid(word_valid), .out(word), .ready(word_ready));
endmodule
`default_nettype wire
