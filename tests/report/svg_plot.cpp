#include "sim/report/svg_plot.h"

#include <boost/property_tree/xml_parser.hpp>
#include <catch2/catch.hpp>
#include <sstream>

using namespace meshweave;

namespace {

boost::property_tree::ptree parse_xml(const std::string& text) {
  std::istringstream in(text);
  boost::property_tree::ptree tree;
  boost::property_tree::read_xml(in, tree);
  return tree;
}

Plot small_plot() {
  Plot plot;
  plot.title = "a < b & \"c\"";
  plot.x_ticks = {1, 10};
  plot.x_text = [](double x) { return std::to_string(static_cast<int>(x)); };
  plot.lines = {{"one", "<detail>", {{1, 2, false}, {10, 20, true}}, 0}, {"two", "", {{1, 2, false}}, 7}};
  plot.marks = {{1, 2, "1", "here & there"}};
  return plot;
}

}  // namespace

TEST_CASE("A chart is well-formed XML, whatever its texts hold") {
  const std::string text = svg_text(small_plot());
  const auto svg = parse_xml(text).get_child("svg");
  CHECK(svg.count("polyline") >= 2);
  CHECK(text.find("a &lt; b &amp; &quot;c&quot;") != std::string::npos);
  CHECK(text.find("nan") == std::string::npos);
  CHECK(text.find("inf") == std::string::npos);
}

TEST_CASE("A chart of a single value has an extent") {
  Plot plot = small_plot();
  plot.lines = {{"one", "", {{5, 3, false}}, 1}};
  const std::string text = svg_text(plot);
  CHECK_NOTHROW(parse_xml(text));
  CHECK(text.find("nan") == std::string::npos);
}
