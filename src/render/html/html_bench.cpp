#include "render/html/html_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "render/html/html_parts.hpp"
#include "render/words/bench_words.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

// Of the picture, in its own units. Colours are plain: a file of its own has no page around it to
// take them from.
constexpr double kPlotWidth = 760;
constexpr double kHeight = 420;
constexpr double kPlotLeft = 56;
constexpr double kTop = 20;
constexpr double kRight = 740;
constexpr double kBottom = 340;

struct Curve {
  std::string name;
  const char* color;
  std::vector<std::pair<double, double>> points;  // devices, speedup
};

// Both axes by doublings, so that what the devices could give is a straight line.
class SpeedupPlot {
 public:
  explicit SpeedupPlot(int most) : doublings_(std::max(1.0, std::ceil(std::log2(most)))) {}
  double x(double devices) const {
    return kPlotLeft + (kRight - kPlotLeft) * std::log2(devices) / doublings_;
  }
  double y(double speedup) const {
    return kBottom - (kBottom - kTop) *
                         std::clamp(std::log2(std::max(speedup, 0.5)) + 1, 0.0, doublings_ + 1) /
                         (doublings_ + 1);
  }
  int most() const { return 1 << static_cast<int>(doublings_); }

  std::string axes() const {
    std::string svg;
    for (int devices = 1; devices <= most(); devices *= 2) {
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#dde2e7\"/><text "
          "x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>",
          x(devices), kTop, kBottom, kBottom + 18, devices);
      svg += fmt::format(
          "<line x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\" stroke=\"#dde2e7\"/><text "
          "x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}x</text>",
          y(devices), kPlotLeft, kRight, kPlotLeft - 8, y(devices) + 4, devices);
    }
    return svg + fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">devices</text>",
                             (kPlotLeft + kRight) / 2, kBottom + 36);
  }

 private:
  double doublings_;
};

std::vector<Curve> curves_of(const BenchReport& report) {
  std::vector<Curve> curves = {{"DDP, each device the whole batch", "#2f7fd1", {}},
                               {"DDP, the batch divided", "#5a9e5d", {}},
                               {"DataParallel", "#c9752b", {}},
                               {"naive split", "#c0392b", {}}};
  for (const BenchRow& row : report.rows) {
    if (row.rounds.empty() || row.too_few_cores) continue;
    const auto at = std::pair<double, double>(row.what.devices, row.speedup);
    if (row.what.devices == 1) {
      for (Curve& curve : curves) curve.points.insert(curve.points.begin(), {1, 1});
    } else if (row.what.of_curve) {
      curves[row.what.growth == Growth::strong ? 1 : 0].points.push_back(at);
    } else if (row.what.way == "data-parallel" || row.what.way == "naive") {
      curves[row.what.way == "naive" ? 3 : 2].points.push_back(at);
    }
  }
  if (!report.rows.empty() && report.rows.front().what.way == "script")
    curves.front().name = "measured";
  std::erase_if(curves, [](const Curve& curve) { return curve.points.size() < 2; });
  return curves;
}

std::string scaling_svg(const BenchReport& report) {
  int most = 8;
  for (const BenchRow& row : report.rows) most = std::max(most, row.what.devices);
  if (report.fit)
    for (const Expected& at : report.fit->weak) most = std::max(most, at.devices);
  const SpeedupPlot plot(most);
  std::string svg = plot.axes();
  svg += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#9aa5af\" "
      "stroke-dasharray=\"2 4\"/>",
      plot.x(1), plot.y(1), plot.x(plot.most()), plot.y(plot.most()));
  for (const PublishedSpeedup& at : kPublishedSpeedups)
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#b7791f\" "
        "stroke-width=\"9\" stroke-opacity=\"0.55\"/>",
        plot.x(at.devices), plot.y(at.low) + 2, plot.y(at.high) - 2);
  if (report.fit)
    for (const Expected& at : report.fit->weak)
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#2f7fd1\" "
          "stroke-width=\"3\" stroke-opacity=\"0.6\"/>",
          plot.x(at.devices) + 8, plot.y(at.low) + 1, plot.y(at.high) - 1);
  double legend = 0;
  const auto key = [&](const char* color, const std::string& name) {
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/><text "
        "x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
        kPlotLeft + 10, kTop + 8 + legend, color, kPlotLeft + 28, kTop + 18 + legend,
        escaped(name));
    legend += 18;
  };
  for (const Curve& curve : curves_of(report)) {
    std::string path;
    for (const auto& [devices, speedup] : curve.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", plot.x(devices),
                          plot.y(speedup));
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{} on {:.0f}: "
          "{:.2f}x</title></circle>",
          plot.x(devices), plot.y(speedup), curve.color, escaped(curve.name), devices, speedup);
    }
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>", path,
                       curve.color);
    key(curve.color, curve.name);
  }
  key("#9aa5af", "as many times as fast as devices");
  if (report.fit && !report.fit->weak.empty()) key("#82b2e3", "expected");
  key("#d4b06a", "published");
  return svg;
}

std::string presets_svg(const BenchReport& report) {
  double most = 1;
  const double first =
      report.rows.empty() ? 0 : report.rows.front().what.published_minutes.value_or(0);
  for (const BenchRow& row : report.rows)
    most = std::max({most, row.speedup, first / row.what.published_minutes.value_or(first)});
  std::string svg;
  double top = kTop;
  for (const BenchRow& row : report.rows) {
    const double published = first / row.what.published_minutes.value_or(first);
    const auto bar = [&](double y, double value, const char* color, const char* what) {
      const double width = (kRight - kPlotLeft - 180) * value / most;
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"22\" fill=\"{}\"/><text "
          "x=\"{:.1f}\" y=\"{:.1f}\">{:.2f}x {}</text>",
          kPlotLeft + 60, y, width, color, kPlotLeft + 68 + width, y + 15, value, what);
    };
    svg +=
        fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}</text>", 4, top + 26, escaped(row.what.title));
    bar(top, row.speedup, "#2f7fd1", "here");
    bar(top + 24, published, "#d4b06a", "published");
    top += 72;
  }
  return svg;
}

std::string runs_table(const BenchReport& report) {
  const bool presets = report.kind == BenchKind::presets;
  std::string html = fmt::format(
      "<table><tr><th>{}</th><th class=\"number\">devices</th><th class=\"number\">batch</th><th "
      "class=\"number\">{}</th><th class=\"number\">speedup</th><th "
      "class=\"number\">efficiency</th><th class=\"number\">epoch</th>{}<th "
      "class=\"number\">busy</th><th>time of a step</th></tr>",
      presets ? "preset" : "way", escaped(report.unit),
      presets ? "<th class=\"number\">published</th>" : "");
  for (const BenchRow& row : report.rows) {
    const std::string published =
        presets ? fmt::format("<td class=\"number\">{}</td>",
                              minutes_words(row.what.published_minutes.value_or(0)))
                : std::string();
    html += fmt::format(
        "<tr><td>{}{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td "
        "class=\"number\">{}</td><td class=\"number\">{:.2f}x</td><td class=\"number\">{:.0f} "
        "%</td><td class=\"number\">{}</td>{}<td class=\"number\">{}</td><td>{}</td></tr>",
        escaped(row.what.title), row.too_few_cores ? " *" : "", row.what.devices,
        escaped(batch_words(row.what)), speed_words(row.speed), row.speedup, row.efficiency * 100,
        row.epoch_s ? fmt::format("{:.1f} s", *row.epoch_s) : "-", published, busy_words(row),
        escaped(parts_words(row, 4)));
  }
  return html + "</table>";
}

std::string titled_list(const std::string& title, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return "";
  std::string html = fmt::format("<h2>{}</h2><ul>", title);
  for (const std::string& sentence : sentences)
    html += fmt::format("<li>{}</li>", escaped(sentence));
  return html + "</ul>";
}

}  // namespace

std::string bench_svg(const BenchReport& report) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
      "font-family=\"system-ui,sans-serif\" font-size=\"13\" fill=\"#1a1d21\" "
      "role=\"img\"><title>{}</title><rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>{}</svg>\n",
      kPlotWidth, kHeight, escaped(heading_words(report)), kPlotWidth, kHeight,
      report.kind == BenchKind::scaling ? scaling_svg(report) : presets_svg(report));
}

std::string bench_html(const BenchReport& report) {
  std::string html = page_start(heading_words(report)) +
                     fmt::format("<h1>{}</h1>", escaped(heading_words(report))) +
                     bench_svg(report) + runs_table(report);
  html += titled_list("more devices", fit_words(report)) +
          titled_list("published", published_words(report)) +
          titled_list("to be known", report.notes) + "<h2>how it was run</h2>";
  for (const BenchRow& row : report.rows)
    html += fmt::format("<p class=\"soft\">{}, {}</p><pre>{}</pre>", escaped(row.what.title),
                        row.what.devices, escaped(command_words(row.what.command)));
  return html + page_end();
}

}  // namespace lockstep
