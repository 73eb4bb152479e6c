// A chart of lines over logarithmic axes, as SVG text.
//
// Colours are those of Okabe and Ito, which people with colour blindness tell apart; dashes and markers tell the lines
// apart without any. A line is named at its right end.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace meshweave {

struct PlotPoint {
  double x = 0, y = 0;  // above 0
  bool hollow = false;  // drawn as a ring, such as a step that does not fit
};

struct PlotLine {
  std::string name;
  std::string detail;             // behind the name, in small print
  std::vector<PlotPoint> points;  // ascending x; at least one
  std::size_t style = 0;          // colour, dashes and marker
};

// A numbered place, such as where two lines cross.
struct PlotMark {
  double x = 0, y = 0;
  std::string text;    // its number
  std::string detail;  // what is there, listed below the chart
};

struct Plot {
  std::string title, subtitle;
  std::string x_title, y_title;  // with units
  std::vector<double> x_ticks;
  std::function<std::string(double)> x_text;
  std::vector<PlotLine> lines;  // at least one; later ones lie above
  std::vector<PlotMark> marks;
  std::string note;  // below the chart
};

std::string svg_text(const Plot& plot);

}  // namespace meshweave
