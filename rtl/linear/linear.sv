// Linear combinations of ciphertexts in memory: destination ← Σ coefficient·source + constant modulo p, rows of T words. Loads and stores are combinations of one term.
// Terms come one after another with constant, destination and the key that all are under, `first` begins a sum, `last` ends the sum. A read is asked for when its
// term is taken, so that terms follow each other in memory's pace: a row a clock. `done` tells that the sum is written.
`default_nettype none
module linear #(
    parameter LOGT = 1,
    parameter ROWS = 1025,  // under the big key; the last one is the body, in lane 0
    parameter SMALL_ROWS = 251,  // under the small key; the last one ends in lane SMALL_LANE with the body
    parameter SMALL_LANE = 0
) (
    input  wire                    clk,
    input  wire                    reset,
    input  wire                    term_valid,
    output wire                    term_ready,
    input  wire                    term_first,
    input  wire                    term_last,
    input  wire [63:0]             term_address,
    input  wire [47:0]             term_coefficient,
    input  wire                    is_small,
    input  wire [63:0]             constant,
    input  wire [63:0]             destination,
    output reg                     read_valid,
    input  wire                    read_ready,
    output reg  [63:0]             read_address,
    output wire [31:0]             read_beats,
    input  wire                    in_valid,
    input  wire [64*(1<<LOGT)-1:0] in_words,
    output wire                    write_valid,
    input  wire                    write_ready,
    output wire [63:0]             write_address,
    output wire [64*(1<<LOGT)-1:0] write_words,
    output wire [(1<<LOGT)-1:0]    write_strobe,
    output wire                    write_last,
    input  wire                    write_done,
    output wire                    done
);
  localparam T = 1 << LOGT;
  localparam ROW = $clog2((ROWS > SMALL_ROWS ? ROWS : SMALL_ROWS) + 1);
  localparam [63:0] PRIME = 64'hFFFFFFFF00000001;

  wire [2:0] waiting;
  wire taken = term_valid && term_ready;
  wire [65:0] term;
  wire term_there;
  wire [63:0] extended = {{16{term_coefficient[47]}}, term_coefficient};
  assign term_ready = !read_valid && waiting < 3'd3;
  always @(posedge clk) begin
    if (reset) read_valid <= 0;
    else if (taken) read_valid <= 1;
    else if (read_ready) read_valid <= 0;
    if (taken) read_address <= term_address;
  end
  reg [ROW-1:0] row;
  wire [ROW-1:0] last_of_rows = is_small ? ROW'(SMALL_ROWS - 1) : ROW'(ROWS - 1);
  wire last_row = row == last_of_rows;
  assign read_beats = 32'(last_of_rows) + 1;
  fifo #(.WIDTH(66), .DEPTH(4)) terms (
      .clk(clk), .reset(reset), .push(taken),
      .in({term_first, term_last, term_coefficient[47] ? extended + PRIME : extended}),
      .used(waiting), .valid(term_there), .out(term), .ready(in_valid && last_row));
  always @(posedge clk) row <= reset || (in_valid && last_row) ? 0 : row + ROW'(in_valid);

  // Clock 12: the product; clock 14: the sum.
  wire valid11, first11, last11, valid12, first12, last12, valid14, last14;
  wire [ROW-1:0] row11, row12, row14;
  delay_control #(.WIDTH(ROW + 3), .DEPTH(11)) to11 (
      .clk(clk), .reset(reset), .in({in_valid, term[65], term[64], row}), .out({valid11, first11, last11, row11}));
  delay_control #(.WIDTH(ROW + 3), .DEPTH(1)) to12 (
      .clk(clk), .reset(reset), .in({valid11, first11, last11, row11}), .out({valid12, first12, last12, row12}));
  delay_control #(.WIDTH(ROW + 2), .DEPTH(2)) to14 (
      .clk(clk), .reset(reset), .in({valid12, last12, row12}), .out({valid14, last14, row14}));
  wire [64*T-1:0] product, so_far, sum;
  memory #(.WIDTH(64 * T), .DEPTH(1 << ROW)) sums (
      .clk(clk), .write(valid14), .write_at(row14), .in(sum), .read_at(row11), .out(so_far));
  genvar l;
  generate
    for (l = 0; l < T; l = l + 1) begin : g_lane
      wire [63:0] begin_with = (is_small ? l == SMALL_LANE : l == 0) && row12 == last_of_rows ? constant : 64'b0;
      gl_mul multiply (.clk(clk), .a(in_words[64*l+:64]), .b(term[63:0]), .y(product[64*l+:64]));
      gl_addsub add (
          .clk(clk), .a(product[64*l+:64]), .b(first12 ? begin_with : so_far[64*l+:64]), .sum(sum[64*l+:64]), .difference());
    end
  endgenerate

  fifo #(.WIDTH(64 * T), .DEPTH(1 << ROW)) leaving (
      .clk(clk), .reset(reset), .push(valid14 && last14), .in(sum), .used(), .valid(write_valid), .out(write_words),
      .ready(write_ready));
  reg [ROW-1:0] left;
  assign write_last = left == last_of_rows;
  assign write_strobe = write_last ? (is_small ? T'((2 << SMALL_LANE) - 1) : T'(1)) : {T{1'b1}};
  assign write_address = destination + (64'(left) << (LOGT + 3));
  assign done = write_done;
  always @(posedge clk)
    left <= reset || (write_valid && write_ready && write_last) ? 0 : left + ROW'(write_valid && write_ready);
endmodule
`default_nettype wire
