// The catalogue of findings against everything that speaks of one: detectors, rules, messages,
// launch checks, pages, and the table in docs/findings/README.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "advice/finding_pages.hpp"
#include "base/text.hpp"
#include "fix/rule.hpp"
#include "lockstep/finding.hpp"
#include "messages/known_messages.hpp"
#include "support/golden.hpp"
#include "support/paths.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Words = std::set<std::string>;

std::string file_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The rows' detectors, as they are written.
const std::map<FindingCode, std::string> kDetectorOf = {
#define FINDING(code, id, name, summary, known_by, kind, part, detector, rules, advice) \
  {FindingCode::code, #detector},
#include "lockstep/finding_catalogue.def"
#undef FINDING
};
// And their codes.
const std::map<FindingCode, std::string> kCodeOf = {
#define FINDING(code, ...) {FindingCode::code, #code},
#include "lockstep/finding_catalogue.def"
#undef FINDING
};

Words known_by_words(const FindingName& row) {
  Words words;
  for (const auto& [flag, word] : kKnownByNames)
    if (includes(row.known_by, flag)) words.emplace(word);
  return words;
}

std::string joined(const FindingName& row) {
  std::vector<std::string> words;
  for (const auto& [flag, word] : kKnownByNames)
    if (includes(row.known_by, flag)) words.emplace_back(word);
  return join(words, ", ");
}

// Sources below a folder that name the finding: FindingCode::taking_turns.
bool is_named_in(const FindingName& row, std::initializer_list<const char*> folders) {
  const std::string name = "FindingCode::" + kCodeOf.at(row.code);
  for (const char* folder : folders)
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(testing::source_tree()) / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      const std::string text = file_text(entry.path());
      for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
        if (const char next = text[at + name.size()]; next != '_' && !std::isalnum(next))
          return true;
    }
  return false;
}

TEST(Catalogue, NamesAreThoseOfTheCodes) {
  Words ids;
  for (const FindingName& row : kFindingNames) {
    std::string name = kCodeOf.at(row.code);
    std::ranges::replace(name, '_', '-');
    EXPECT_EQ(row.name, name);
    EXPECT_TRUE(ids.emplace(row.id).second) << row.id << " stands twice";
  }
}

TEST(Catalogue, WhatIsSeenOutsideOrInStepsHasADetector) {
  for (const FindingName& row : kFindingNames) {
    const bool is_looked_for =
        includes(row.known_by, KnownBy::outside) || includes(row.known_by, KnownBy::steps);
    EXPECT_EQ(is_looked_for, kDetectorOf.at(row.code) != "none") << row.id;
  }
}

TEST(Catalogue, MessagesAreThoseOfTheTableOfMessages) {
  Words told;
  for (const KnownMessage& message : known_messages()) told.emplace(name_of(message.code).id);

  for (const FindingName& row : kFindingNames)
    EXPECT_EQ(includes(row.known_by, KnownBy::message), told.contains(std::string(row.id)))
        << row.id;
}

TEST(Catalogue, RulesAreThoseOfFix) {
  Words rules;
  for (const Rule& rule : all_rules()) rules.emplace(rule.name);
  Words named;

  for (const FindingName& row : kFindingNames) {
    EXPECT_EQ(includes(row.known_by, KnownBy::code), !row.rules.empty()) << row.id;
    if (row.rules.empty()) continue;
    for (const std::string_view rule : split(row.rules, ' ')) {
      EXPECT_TRUE(rules.contains(std::string(rule))) << row.id << " names the rule " << rule;
      named.emplace(rule);
    }
  }
  EXPECT_EQ(named, rules) << "a rule that no finding names finds nothing";
}

TEST(Catalogue, TracesDumpsAndLaunchChecksAreThere) {
  for (const FindingName& row : kFindingNames) {
    EXPECT_EQ(includes(row.known_by, KnownBy::trace), is_named_in(row, {"src/detectors/trace"}))
        << row.id;
    EXPECT_EQ(includes(row.known_by, KnownBy::dump), is_named_in(row, {"src/detectors/told"}))
        << row.id;
    EXPECT_EQ(includes(row.known_by, KnownBy::launch),
              is_named_in(row, {"src/launch"}) || row.code == FindingCode::gpu_held_by_others)
        << row.id;
  }
}

// "- outside: ..." under "How lockstep knows".
Words promises_of(std::string_view page) {
  const auto begin = page.find("## How lockstep knows\n");
  const auto end = page.find("\n## ", begin + 1);
  Words words;
  for (const std::string_view line : split(page.substr(begin, end - begin), '\n'))
    if (line.starts_with("- ")) words.emplace(line.substr(2, line.find(':') - 2));
  return words;
}

TEST(FindingPages, PromiseWhatTheCatalogueHas) {
  ASSERT_EQ(finding_pages().size(), kFindingNames.size());

  for (const FindingPage& page : finding_pages()) {
    const FindingName* const row = finding_named(page.id);
    ASSERT_NE(row, nullptr) << page.id << " is in no row";
    EXPECT_TRUE(page.text.starts_with("# " + std::string(row->id) + " " + std::string(row->name)))
        << page.id;
    EXPECT_EQ(promises_of(page.text), known_by_words(*row)) << page.id;
  }
}

TEST(FindingPages, WouldNoticeAPromiseOfARuleThatIsNotThere) {
  const std::string page =
      "# S304 evaluation-stall\n\n## How lockstep knows\n- steps: a span.\n- code: `lockstep fix` "
      "finds it.\n\n## Fix\n";

  EXPECT_NE(promises_of(page), known_by_words(name_of(FindingCode::evaluation_stall)));
}

std::string table_of_findings() {
  const std::map<char, std::string> families = {{'P', "Split of work"},
                                                {'D', "Data"},
                                                {'S', "Host"},
                                                {'C', "Collectives"},
                                                {'B', "Batch, memory and precision"},
                                                {'H', "Hardware"},
                                                {'X', "Code and configuration"},
                                                {'L', "Launch"}};
  std::string text;
  char family = 0;
  for (const FindingName& row : kFindingNames) {
    if (row.id.front() != family) {
      family = row.id.front();
      text += std::string("\n## ") + family + ": " + families.at(family) +
              "\n\n| code | name | in one line | known by |\n|---|---|---|---|\n";
    }
    const std::string id(row.id);
    text += "| [" + id + "](" + id + ".md) | " + std::string(row.name) + " | " +
            std::string(row.summary) + " | " + joined(row) + " |\n";
  }
  return text;
}

TEST(FindingPages, AreListedInTheReadme) {
  const fs::path readme = fs::path(testing::source_tree()) / "docs/findings/README.md";
  const std::string text = file_text(readme);

  const std::string introduction = text.substr(0, text.find("\n## "));

  testing::expect_golden(readme, introduction + table_of_findings());
}

}  // namespace
}  // namespace lockstep
