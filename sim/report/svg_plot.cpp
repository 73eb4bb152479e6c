#include "sim/report/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "sim/base/text.h"

namespace meshweave {
namespace {

constexpr double width = 1080;
constexpr double left = 92, right = 690, top = 84, bottom = 500;
constexpr double label_height = 17, list_top = 582, list_line = 17;

struct Style {
  std::string_view colour;
  std::string_view dashes;
  int marker;  // index into draw_marker()
};
constexpr std::array<Style, 8> styles{{{"#000000", "2 4", 0},
                                       {"#0072B2", "none", 1},
                                       {"#E69F00", "10 4", 2},
                                       {"#009E73", "10 3 2 3", 3},
                                       {"#CC79A7", "6 3", 4},
                                       {"#56B4E9", "14 4", 5},
                                       {"#666666", "4 2", 6},
                                       {"#D55E00", "none", 0}}};
constexpr std::size_t strong_style = 7;  // drawn thicker

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : escaped(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

// A logarithmic axis from `least` to `most` onto pixels.
struct Axis {
  double least = 1, most = 1;
  double from = 0, to = 1;
  double operator()(double value) const {
    return from + (std::log(value) - std::log(least)) / (std::log(most) - std::log(least)) * (to - from);
  }
};

// 1, 2 and 5 times powers of ten within the axis; every decade is cut finer where that gives less than three.
std::vector<double> ticks_of(double least, double most) {
  for (const std::vector<double>& steps :
       {std::vector<double>{1, 2, 5},
        {1, 1.5, 2, 3, 4, 5, 6, 8},
        {1,   1.1,  1.2, 1.3,  1.4, 1.5,  1.6, 1.7, 1.8, 1.9, 2, 2.2, 2.4, 2.6, 2.8, 3,  3.25,
         3.5, 3.75, 4,   4.25, 4.5, 4.75, 5,   5.5, 6,   6.5, 7, 7.5, 8,   8.5, 9,   9.5}}) {
    std::vector<double> ticks;
    for (int decade = static_cast<int>(std::floor(std::log10(least))); decade <= std::ceil(std::log10(most));
         ++decade) {
      for (const double step : steps) {
        const double tick = step * std::pow(10, decade);
        if (tick >= least * (1 - 1e-9) && tick <= most * (1 + 1e-9)) ticks.push_back(tick);
      }
    }
    if (ticks.size() >= 3) return ticks;
  }
  return {least, most};
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot) {
    double x0 = std::numeric_limits<double>::max(), x1 = 0, y0 = x0, y1 = 0;
    for (const PlotLine& line : plot.lines) {
      for (const PlotPoint& p : line.points) {
        x0 = std::min(x0, p.x), x1 = std::max(x1, p.x);
        y0 = std::min(y0, p.y), y1 = std::max(y1, p.y);
      }
    }
    const double room = std::max(1.03, std::pow(y1 / y0, 0.06));  // above and below the lines
    const double beside = x1 > x0 ? std::pow(x1 / x0, 0.03) : 2;
    x_ = {x0 / beside, x1 * beside, left, right};
    y_ = {y0 / room, y1 * room, bottom, top};
  }

  std::string run() {
    const double height = list_top + list_line * std::ceil(static_cast<double>(plot_.marks.size()) / 2) + 4;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="DejaVu Sans, Arial, sans-serif" font-size="13">)",
        width, height);
    add(R"(<rect width="{}" height="{}" fill="#ffffff"/>)", width, height);
    text(left, 34, "start", plot_.title, R"( font-size="18" font-weight="bold")");
    text(left, 58, "start", plot_.subtitle, R"( fill="#444444")");
    axes();
    for (const PlotLine& line : plot_.lines) draw(line);
    marks();
    labels();
    text(left, list_top - 12, "start", plot_.note, R"( font-size="12" fill="#444444")");
    list();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
    out_ += '\n';
  }

  void text(double x, double y, std::string_view anchor, std::string_view what, std::string_view more = {}) {
    if (what.empty()) return;
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>)", x, y, anchor, more, escape_xml(what));
  }

  void axes() {
    for (const double tick : ticks_of(y_.least, y_.most)) {
      add(R"(<line x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}" stroke="#dddddd"/>)", left, y_(tick), right, y_(tick));
      text(left - 8, y_(tick) + 4.5, "end", fmt::format("{:.6g}", tick));
    }
    for (const double tick : plot_.x_ticks) {
      add(R"(<line x1="{:.1f}" y1="{}" x2="{:.1f}" y2="{}" stroke="#dddddd"/>)", x_(tick), top, x_(tick), bottom);
      text(x_(tick), bottom + 20, "middle", plot_.x_text(tick));
    }
    add(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="#666666"/>)", left, top, right - left,
        bottom - top);
    text((left + right) / 2, bottom + 46, "middle", plot_.x_title);
    text(0, 0, "middle", plot_.y_title,
         fmt::format(R"x( transform="translate(26 {}) rotate(-90)")x", (top + bottom) / 2));
  }

  static const Style& style_of(const PlotLine& line) { return styles[line.style % styles.size()]; }

  void draw(const PlotLine& line) {
    const Style& style = style_of(line);
    std::string points;
    for (const PlotPoint& p : line.points)
      fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ", x_(p.x), y_(p.y));
    points.pop_back();
    add(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="{}" stroke-dasharray="{}"/>)", points,
        style.colour, line.style == strong_style ? 3.5 : 2, style.dashes);
    for (const PlotPoint& p : line.points) draw_marker(style, x_(p.x), y_(p.y), p.hollow);
  }

  void draw_marker(const Style& style, double x, double y, bool hollow) {
    const std::string paint =
        fmt::format(R"(fill="{}" stroke="{}" stroke-width="1.8")", hollow ? "#ffffff" : style.colour, style.colour);
    switch (style.marker) {
      case 0: add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.2" {}/>)", x, y, paint); break;
      case 1: add(R"(<rect x="{:.1f}" y="{:.1f}" width="8" height="8" {}/>)", x - 4, y - 4, paint); break;
      case 2: polygon(x, y, {{0, -5.2}, {5, 4}, {-5, 4}}, paint); break;
      case 3: polygon(x, y, {{0, -5.6}, {5.6, 0}, {0, 5.6}, {-5.6, 0}}, paint); break;
      case 4: polygon(x, y, {{0, 5.2}, {5, -4}, {-5, -4}}, paint); break;
      case 5: polygon(x, y, {{-5.2, 0}, {4, -5}, {4, 5}}, paint); break;
      default: polygon(x, y, {{5.2, 0}, {-4, -5}, {-4, 5}}, paint);
    }
  }

  void polygon(double x, double y, const std::vector<std::pair<double, double>>& corners, const std::string& paint) {
    std::string points;
    for (const auto& [dx, dy] : corners) fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ", x + dx, y + dy);
    points.pop_back();
    add(R"(<polygon points="{}" {}/>)", points, paint);
  }

  // Marks that would overlap share one frame: "3, 4".
  void marks() {
    struct Frame {
      double x, y;
      std::string text;
    };
    std::vector<Frame> frames;
    for (const PlotMark& mark : plot_.marks) {
      const double x = x_(mark.x), y = y_(mark.y);
      const auto near = std::find_if(frames.begin(), frames.end(),
                                     [&](const Frame& f) { return std::abs(f.x - x) < 18 && std::abs(f.y - y) < 16; });
      if (near == frames.end())
        frames.push_back({x, y, mark.text});
      else
        near->text += ", " + mark.text;
    }
    for (const Frame& f : frames) {
      const double w = 16 + 5.0 * static_cast<double>(f.text.size() - 1);
      add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="16" rx="8" fill="#ffffff" fill-opacity="0.85" stroke="#000000"/>)",
          f.x - w / 2, f.y - 8, w);
      text(f.x, f.y + 3.5, "middle", f.text, R"( font-size="10")");
    }
  }

  // What the marks are, in two columns.
  void list() {
    const std::size_t lines = (plot_.marks.size() + 1) / 2;
    for (std::size_t i = 0; i < plot_.marks.size(); ++i) {
      const PlotMark& mark = plot_.marks[i];
      text(left + (i < lines ? 0 : 480), list_top + list_line * (static_cast<double>(i % lines) + 0.5), "start",
           mark.text + "  " + mark.detail, R"( font-size="12")");
    }
  }

  // Names beside the ends of the lines, pushed apart where they would overlap.
  void labels() {
    struct Label {
      const PlotLine* line;
      double x, wanted, y;
    };
    std::vector<Label> all;
    for (const PlotLine& line : plot_.lines) {
      const PlotPoint& end = line.points.back();
      all.push_back({&line, x_(end.x), y_(end.y), y_(end.y)});
    }
    std::stable_sort(all.begin(), all.end(), [](const Label& a, const Label& b) { return a.wanted < b.wanted; });
    for (std::size_t i = 1; i < all.size(); ++i) all[i].y = std::max(all[i].y, all[i - 1].y + label_height);
    const double excess = all.back().y - bottom;
    if (excess > 0) {
      all.back().y = bottom;
      for (std::size_t i = all.size() - 1; i-- > 0;) all[i].y = std::min(all[i].y, all[i + 1].y - label_height);
    }
    constexpr double at = right + 26;
    for (const Label& label : all) {
      const Style& style = style_of(*label.line);
      add(R"(<polyline points="{:.1f},{:.1f} {:.1f},{:.1f}" fill="none" stroke="{}" stroke-width="1" stroke-opacity="0.6"/>)",
          label.x + 6, label.wanted, at - 4, label.y, style.colour);
      add(R"(<text x="{:.1f}" y="{:.1f}">{} <tspan font-size="11" fill="#555555">{}</tspan></text>)", at, label.y + 4.5,
          escape_xml(label.line->name), escape_xml(label.line->detail));
    }
  }

  const Plot& plot_;
  Axis x_, y_;
  std::string out_;
};

}  // namespace

std::string svg_text(const Plot& plot) { return Drawing(plot).run(); }

}  // namespace meshweave
