#include "base/redact.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

namespace lockstep {
namespace {

constexpr std::string_view kHidden = "\xE2\x80\xA6";  // an ellipsis
constexpr std::array<std::string_view, 4> kSecretNames = {"token", "key", "secret", "password"};
constexpr std::array<std::string_view, 4> kSecretPrefixes = {"hf_", "sk-", "ghp_", "AKIA"};

bool names_a_secret(std::string_view option) {
  std::string lower(option);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return std::ranges::any_of(
      kSecretNames, [&](std::string_view name) { return lower.find(name) != std::string::npos; });
}

// Hides secret words at the start of a text and after what separates values in URLs, assignments
// and quoted shell lines; not inside paths, where `hf_cache` is a folder.
std::string hide_secret_words(std::string text) {
  constexpr std::string_view kSeparators = "=:@,\"'&?;()[]{}|<> \t\n";
  for (std::size_t at = 0; at < text.size();) {
    if (kSeparators.find(text[at]) != std::string_view::npos) {
      ++at;
      if (text.compare(at, 2, "//") == 0) at += 2;  // user information of a URL
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    const bool secret = std::ranges::any_of(kSecretPrefixes, [&](std::string_view prefix) {
      return word.size() > prefix.size() && word.starts_with(prefix);
    });
    if (secret) text.replace(at, end - at, kHidden);
    at = secret ? at + kHidden.size() : end;
  }
  return text;
}

// Where the value of a secret starts in `--api-key=x`, `--env=API_KEY=x` or
// `--export=ALL,HF_TOKEN=x`: behind the first `=` whose name, back to the last separator, is a
// secret's.
std::optional<std::size_t> secret_value_in(std::string_view word) {
  for (std::size_t equals = word.find('='); equals != std::string_view::npos;
       equals = word.find('=', equals + 1)) {
    const std::size_t separator =
        equals == 0 ? std::string_view::npos : word.find_last_of("=,;:? &", equals - 1);
    const std::size_t name_at = separator == std::string_view::npos ? 0 : separator + 1;
    if (names_a_secret(word.substr(name_at, equals - name_at))) return equals + 1;
  }
  return std::nullopt;
}

// Where a shell word that starts at `at` ends: at a blank, but not inside quotes.
std::size_t shell_word_end(const std::string& line, std::size_t at) {
  char quote = '\0';
  for (; at < line.size(); ++at) {
    const char letter = line[at];
    if (quote != '\0') {
      if (letter == quote) quote = '\0';
    } else if (letter == '\'' || letter == '"') {
      quote = letter;
    } else if (letter == ' ' || letter == '\t' || letter == '\n') {
      return at;
    }
  }
  return at;
}

// Shell code (`bash -c "train --token x"`): hides NAME=value and --name value in it.
std::string hide_inside_code(const std::string& line) {
  std::string result;
  bool hide_next = false;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t blank_end = std::min(line.find_first_not_of(" \t\n", at), line.size());
    result.append(line, at, blank_end - at);
    at = blank_end;
    const std::size_t word_end = shell_word_end(line, at);
    const std::string word = line.substr(at, word_end - at);
    if (hide_next && !word.empty()) {
      result += kHidden;
      hide_next = false;
    } else if (const auto value_at = secret_value_in(word)) {
      result += word.substr(0, *value_at);
      result += kHidden;
    } else {
      hide_next =
          word.starts_with("-") && word.find('=') == std::string::npos && names_a_secret(word);
      result += word;
    }
    at = word_end;
  }
  return result;
}

// `-c`, `-lc`: what follows is code.
bool announces_code(const std::string& option) {
  if (option.size() < 2 || option.size() > 4 || option[0] != '-' || option.back() != 'c')
    return false;
  return std::all_of(option.begin() + 1, option.end(),
                     [](unsigned char letter) { return std::isalpha(letter) != 0; });
}

}  // namespace

std::vector<std::string> redact_command(std::vector<std::string> command) {
  bool value_is_secret = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    std::string& word = command[i];
    if (value_is_secret) {
      value_is_secret = false;
      if (!word.starts_with("--")) {  // `--use-key --next`: the option had no value
        word = kHidden;
        continue;
      }
    }
    if (i > 0 && announces_code(command[i - 1]) && !word.starts_with("-")) {
      word = hide_secret_words(hide_inside_code(word));
      continue;
    }
    const bool assigns = word.find('=') != std::string::npos;
    if (const auto value_at = secret_value_in(word)) {
      word = word.substr(0, *value_at) + std::string(kHidden);
      continue;
    }
    // An option by its dash; the first word is the program, whose name may well hold "key".
    value_is_secret = i > 0 && !assigns && word.starts_with("-") && names_a_secret(word);
    word = hide_secret_words(std::move(word));
  }
  return command;
}

}  // namespace lockstep
