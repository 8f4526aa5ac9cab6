// Help and the manual page, made from the description of the verbs.
#include <algorithm>
#include <sstream>

#include "runtime/base/duration.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {
namespace {

constexpr size_t kWidth = 100;

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string Joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string Shown(const Option& option) {
  return Joined(option.AllNames()) + (option.value.empty() ? "" : " " + option.value);
}

std::string Shown(const Argument& argument, bool command) {
  std::string text = argument.name;
  if (command) {
    text += " [ARGUMENT…]";
  } else if (std::holds_alternative<Words*>(argument.target)) {
    text += "…";
  }
  return argument.required ? text : "[" + text + "]";
}

std::string WhatOf(const Option& option) {
  std::string text = option.what;
  if (std::holds_alternative<Words*>(option.target)) text += "; repeatable";
  if (const auto* number = std::get_if<int*>(&option.target); number != nullptr && **number != 0) {
    text += " (default: " +
            (option.range.duration ? DurationText(**number) : std::to_string(**number)) + ")";
  }
  if (!option.variable.empty()) text += " [" + option.variable + "]";
  return text;
}

Rows OptionRows(const Verb& verb) {
  Rows rows;
  for (const Option& option : verb.options()) rows.emplace_back(Shown(option), WhatOf(option));
  return rows;
}

Rows ArgumentRows(const Verb& verb) {
  Rows rows;
  for (const Argument& argument : verb.arguments()) rows.emplace_back(argument.name, argument.what);
  return rows;
}

Rows VerbRows(const Verb& verb) {
  Rows rows;
  for (const Verb& one : verb.verbs()) {
    if (!one.hidden()) rows.emplace_back(Joined(one.names()), one.what());
  }
  return rows;
}

// Returns the width in columns: each UTF-8 character counts as one.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string Wrapped(const std::string& text, size_t indent) {
  std::istringstream words(text);
  std::string out, word;
  size_t column = indent;
  while (words >> word) {
    if (column > indent && column + 1 + WidthOf(word) > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += WidthOf(word);
  }
  return out + "\n";
}

std::string Section(const std::string& title, const Rows& rows) {
  if (rows.empty()) return {};
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, WidthOf(row.first));
  width = std::min<size_t>(width, 28);
  std::string text = "\n" + title + "\n";
  for (const auto& [name, what] : rows) {
    text += "  " + name;
    const size_t columns = WidthOf(name);
    text += columns > width ? "\n" + std::string(width + 4, ' ')
                            : std::string(width + 2 - columns, ' ');
    text += Wrapped(what, width + 4);
  }
  return text;
}

// Escapes text for roff.
std::string Roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else {
      if (c == '.' && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

std::string RoffRows(const Rows& rows) {
  std::string text;
  for (const auto& [name, what] : rows) {
    text += ".TP\n.B " + Roff(name) + "\n" + Roff(what) + "\n";
  }
  return text;
}

std::string RoffText(const Verb& verb) {
  return verb.text().empty() ? "" : ".PP\n.nf\n" + Roff(verb.text()) + "\n.fi\n";
}

std::string RoffVerbs(const Verb& verb) {
  std::string text;
  for (const Verb& one : verb.verbs()) {
    if (one.hidden()) continue;
    if (one.verbs().empty()) {
      const std::string usage = UsageLine(one);
      text += ".SS " + Roff(usage.substr(usage.find(' ') + 1)) + "\n" + Roff(one.what()) + ".\n" +
              RoffRows(ArgumentRows(one)) + RoffRows(OptionRows(one)) + RoffText(one);
    }
    text += RoffVerbs(one);
  }
  return text;
}

}  // namespace

std::string UsageLine(const Verb& verb) {
  std::string text = "Usage: " + verb.Path();
  if (!verb.verbs().empty())
    return text + (verb.parent() == nullptr ? " [OPTIONS] COMMAND" : " COMMAND");
  if (!verb.options().empty()) text += " [OPTIONS]";
  for (const Argument& argument : verb.arguments()) {
    text += " " + Shown(argument, verb.has_command() && &argument == &verb.arguments().back());
  }
  return text;
}

std::string HelpText(const Verb& verb) {
  std::string text = UsageLine(verb) + "\n\n" + verb.what() + ".\n";
  text += Section("Commands:", VerbRows(verb));
  text += Section("Arguments:", ArgumentRows(verb));
  text += Section("Options:", OptionRows(verb));
  if (!verb.text().empty()) text += "\n" + verb.text() + "\n";
  if (verb.parent() != nullptr) text += "\nOptions of all commands: atoll --help\n";
  return text;
}

std::string ManualPage(const Verb& root) {
  return ".TH ATOLL 1\n.SH NAME\natoll \\- " + Roff(root.what()) + "\n.SH SYNOPSIS\n" +
         Roff(UsageLine(root).substr(7)) + "\n.SH OPTIONS\n" + RoffRows(OptionRows(root)) +
         ".SH COMMANDS\n" + RoffVerbs(root) + ".SH NOTES" + RoffText(root).substr(3);
}

}  // namespace atl::cli
