#include "render/html/html_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "render/words/fleet_words.hpp"
#include "render/words/words.hpp"

namespace lockstep {
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default: safe += c;
    }
  }
  return safe;
}

namespace {

constexpr std::string_view kStyle = R"css(
:root{--ground:#fff;--ink:#1a1d21;--soft:#5c6670;--line:#dde2e7;--lane:#eef1f4;--busy:#2f7fd1;--power:#c9752b;--memory:#5a9e5d;--bad:#c0392b;--warn:#b7791f;--good:#2e7d4f}
@media (prefers-color-scheme:dark){:root{--ground:#14171a;--ink:#e6e9ec;--soft:#9aa5af;--line:#2c333a;--lane:#1e2327;--busy:#5aa5ef;--power:#e39a55;--memory:#7cc47f;--bad:#f0796b;--warn:#e0b050;--good:#6cc38f}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1.5rem;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.15rem;margin:2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
.soft{color:var(--soft);font-size:.92rem}.sentence{font-size:1.1rem;margin:.4rem 0}
svg{width:100%;height:auto;display:block}.label{fill:var(--ink);font:12px system-ui,sans-serif}.axis{fill:var(--soft);font:11px system-ui,sans-serif}
.finding{border:1px solid var(--line);border-left:4px solid var(--warn);border-radius:6px;padding:.8rem 1rem;margin:.8rem 0}
.finding.critical{border-left-color:var(--bad)}.finding.info{border-left-color:var(--busy)}
.finding h3{margin:0 0 .3rem;font-size:1.05rem}.cost{font-weight:600}
pre{background:var(--lane);padding:.6rem .8rem;border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0;font-size:.92rem;user-select:all}
pre.diff{white-space:pre;overflow-x:auto}ins{color:var(--good);text-decoration:none}del{color:var(--bad);text-decoration:none}
table{border-collapse:collapse;width:100%;font-size:.95rem}td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line)}td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}td.number{white-space:nowrap}
ul{padding-left:1.2rem}.yes{color:var(--good);font-weight:600}.no{color:var(--bad);font-weight:600}
)css";

// A row of bars a GPU: heights are values, holes are unknown.
std::string lanes_svg(const LanePicture& picture, std::string_view color) {
  const bool named =
      std::ranges::any_of(picture.rows, [](const LaneRow& row) { return !row.place.empty(); });
  const double left = named ? 130 : 56;
  const double width = 896 - left;
  constexpr double kRow = 30;
  constexpr double kGap = 6;
  const double height = static_cast<double>(picture.rows.size()) * (kRow + kGap) + 22;
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{} of each GPU over time\">",
      left + width, height, escaped(picture.made_of));
  for (std::size_t i = 0; i < picture.rows.size(); ++i) {
    const LaneRow& row = picture.rows[i];
    const double top = static_cast<double>(i) * (kRow + kGap);
    svg += fmt::format(
        "<text class=\"label\" x=\"0\" y=\"{:.1f}\">{}</text><rect x=\"{}\" y=\"{:.1f}\" "
        "width=\"{}\" height=\"{}\" fill=\"var(--lane)\"/>",
        top + kRow * 0.65, row.place.empty() ? fmt::format("GPU {}", row.gpu) : escaped(row.place),
        left, top, width, kRow);
    const double column = width / static_cast<double>(std::max<std::size_t>(1, row.values.size()));
    std::string path;
    for (std::size_t at = 0; at < row.values.size(); ++at) {
      if (!row.values[at] || *row.values[at] <= 0.004) continue;
      const double bar = *row.values[at] * kRow;
      path += fmt::format("M{:.1f} {:.1f}h{:.2f}v{:.1f}h-{:.2f}z",
                          left + static_cast<double>(at) * column, top + kRow - bar, column, bar,
                          column);
    }
    svg += fmt::format("<path data-gpu=\"{}\" d=\"{}\" fill=\"var(--{})\"/>", row.gpu, path, color);
  }
  const double length =
      picture.rows.empty()
          ? 0
          : picture.column_s * static_cast<double>(picture.rows.front().values.size());
  svg += fmt::format(
      "<text class=\"axis\" x=\"{}\" y=\"{:.1f}\">{:.4g} s</text><text class=\"axis\" x=\"{:.0f}\" "
      "y=\"{:.1f}\" text-anchor=\"end\">{:.4g} s</text></svg>",
      left, height - 6, picture.from_s, left + width, height - 6, picture.from_s + length);
  return svg;
}

}  // namespace

std::string picture_html(const LanePicture& picture) {
  const std::string_view color = picture.made_of == "busy"     ? "busy"
                                 : picture.made_of == "memory" ? "memory"
                                                               : "power";
  return fmt::format("<h3>{}</h3>{}", escaped(picture.made_of), lanes_svg(picture, color));
}

// Removed and added lines in their colours.
std::string diff_html(const std::string& diff) {
  std::string html;
  for (const std::string_view line :
       split(diff.ends_with('\n') ? std::string_view(diff).substr(0, diff.size() - 1)
                                  : std::string_view(diff),
             '\n')) {
    const bool header =
        line.starts_with("+++") || line.starts_with("---") || line.starts_with("@@");
    const std::string shown =
        escaped(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
    html += header                  ? fmt::format("<span class=\"soft\">{}</span>\n", shown)
            : line.starts_with("+") ? fmt::format("<ins>{}</ins>\n", shown)
            : line.starts_with("-") ? fmt::format("<del>{}</del>\n", shown)
                                    : shown + "\n";
  }
  return html;
}

std::string finding_html(const Finding& finding, bool suspected) {
  const FindingName& name = name_of(finding.code);
  std::string html = fmt::format(
      "<section class=\"finding {}\"><h3>{} {}{}</h3><p class=\"soft\">{}, {:.0f} % sure{}</p>",
      severity_word(finding.severity), name.id, name.name, suspected ? " (suspected)" : "",
      severity_word(finding.severity), finding.confidence * 100,
      has_a_place(finding) ? ", on " + escaped(where_words(finding)) : "");
  if (finding.lost_throughput >= 0.005)
    html += fmt::format("<p class=\"cost\">{}</p>", escaped(cost_sentence(finding)));
  if (!finding.evidence.empty()) {
    html += "<ul>";
    for (const Evidence& item : finding.evidence)
      html += fmt::format("<li>{}</li>", escaped(evidence_words(item)));
    html += "</ul>";
  }
  if (!finding.where.empty())
    html += fmt::format("<p>at {}{}</p>", escaped(place_list(finding)),
                        finding.reason.empty() ? "" : ": " + escaped(finding.reason));
  for (const Fix& fix : finding.fixes) {
    html += fmt::format(
        "<p>fix: {}{}</p>", escaped(fix.description),
        fix.safety == FixSafety::unsafe ? " <span class=\"soft\">(may change results)</span>" : "");
    if (!fix.command.empty())
      html += fmt::format("<pre>{}</pre>", escaped(command_words(fix.command)));
    if (fix.diff) html += fmt::format("<pre class=\"diff\">{}</pre>", diff_html(*fix.diff));
  }
  return html + "</section>";
}

std::string gpus_html(const Report& report) {
  std::string html =
      "<h2>GPUs</h2><table><tr><th>GPU</th><th>name</th><th>busy</th><th>power</th><th>memory</"
      "th></tr>";
  for (const GpuReport& gpu : report.gpus)
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td "
        "class=\"number\">{}</td></tr>",
        escaped(gpu_label(gpu.info)), escaped(gpu.info.name.value_or("-")),
        gpu.busy ? fmt::format("{:.0f} %", *gpu.busy * 100) : "-",
        gpu.power_mw ? fmt::format("{:.0f} W", *gpu.power_mw / 1e3) : "-",
        gpu.memory_used_bytes ? format_bytes(*gpu.memory_used_bytes) : "-");
  html += "</table>";
  if (report.processes.empty()) return html;
  html += "<h2>Processes</h2><table><tr><th>pid</th><th>GPU</th><th>rank</th><th>command</th></tr>";
  for (const ProcessSample& process : report.processes) {
    std::vector<std::string> gpus;
    for (const ProcessOnGpu& use : process.gpus) gpus.push_back(std::to_string(use.index));
    html += fmt::format("<tr><td class=\"number\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                        process.pid, join(gpus, ", "),
                        process.rank ? std::to_string(*process.rank) : "-",
                        escaped(process.command ? command_words(*process.command) : "-"));
  }
  return html + "</table>";
}

std::string checklist_html(const std::vector<CheckItem>& items) {
  std::string html = "<table>";
  for (const CheckItem& item : items)
    html += fmt::format("<tr><td class=\"{0}\">{0}</td><td>{1}</td><td>{2}</td></tr>",
                        item.answer(), escaped(item.question), escaped(item.measured));
  return html + "</table>";
}

std::string page_start(std::string_view title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">"
      "<title>lockstep: {}</title><style>{}</style></head><body>",
      escaped(title), kStyle);
}

std::string page_end() { return "</body></html>\n"; }

}  // namespace lockstep
