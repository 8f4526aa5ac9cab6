#include "tools/atoll/words/columns.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

// Returns "USED BY" for "UsedBy".
std::string Heading(const std::string& field) {
  std::string text;
  bool after_small = false;
  for (const char c : field) {
    const bool small = c >= 'a' && c <= 'z';
    if (!small && after_small) text += ' ';
    text += small ? static_cast<char>(c - 32) : c;
    after_small = small;
  }
  return text;
}

std::string Unescaped(std::string text) {
  for (size_t at = 0; (at = text.find('\\', at)) != std::string::npos; ++at) {
    if (text.compare(at, 2, "\\t") == 0) text.replace(at, 2, "\t");
    if (text.compare(at, 2, "\\n") == 0) text.replace(at, 2, "\n");
  }
  return text;
}

}  // namespace

Verb& TakesListStyle(Verb& verb, ListStyle* style, const char* quiet, const char* example) {
  verb.Takes(Option{"-q,--quiet", "", quiet, &style->quiet});
  return verb.Takes(Option{"--format", "TEMPLATE",
                           std::string("Lines such as '") + example + "', 'table {{.…}}', or json",
                           &style->format});
}

Columns::Columns(std::vector<std::string> shown, std::map<std::string, std::string> also,
                 std::vector<std::string> others)
    : fields_(std::move(shown)), shown_(fields_.size()), also_(std::move(also)) {
  fields_.insert(fields_.end(), others.begin(), others.end());
}

Result<size_t> Columns::IndexOf(std::string name) const {
  if (const auto other = also_.find(name); other != also_.end()) name = other->second;
  const auto found = std::find(fields_.begin(), fields_.end(), name);
  if (found != fields_.end()) return static_cast<size_t>(found - fields_.begin());
  std::string known;
  for (const std::string& field : fields_) known += (known.empty() ? "" : ", ") + field;
  return Fail(Code::kInvalidArgument,
              "--format: there is no {{." + name + "}}; there are " + known);
}

Result<std::vector<std::string>> Columns::Split(const std::string& format) const {
  std::vector<std::string> parts(1);
  for (size_t at = 0; at < format.size();) {
    if (format.compare(at, 2, "{{") != 0) {
      parts.back().push_back(format[at++]);
      continue;
    }
    const size_t end = format.find("}}", at);
    std::string field = format.substr(at + 2, end == std::string::npos ? end : end - at - 2);
    std::erase(field, ' ');
    if (end == std::string::npos || field.size() < 2 || field.front() != '.') {
      return Fail(Code::kInvalidArgument,
                  "--format " + format + ": a template may only contain text and {{.FIELD}}");
    }
    parts.push_back(field.substr(1));
    parts.emplace_back();
    at = end + 2;
  }
  return parts;
}

void Columns::PrintJson() const {
  for (const auto& row : rows_) {
    nlohmann::json object;
    for (size_t i = 0; i < fields_.size(); ++i) object[fields_[i]] = row[i];
    std::puts(JsonText(object).c_str());
  }
}

Status Columns::Print(const std::string& format) const {
  constexpr std::string_view kTable = "table ";
  const bool whole = format.empty() || format == "table";
  const bool table = whole || format.starts_with(kTable);
  if (format == "json" || format == "{{json .}}") {
    PrintJson();
    return {};
  }
  std::vector<size_t> wanted;
  std::vector<std::string> texts;
  if (whole) {
    for (size_t i = 0; i < shown_; ++i) wanted.push_back(i);
  } else {
    const std::string plain = table ? format.substr(kTable.size()) : Unescaped(format);
    ATOLL_ASSIGN(const auto parts, Split(plain));
    for (size_t i = 1; i < parts.size(); i += 2) {
      ATOLL_ASSIGN(wanted.emplace_back(), IndexOf(parts[i]));
    }
    for (size_t i = 0; i < parts.size(); i += 2) texts.push_back(parts[i]);
  }
  if (!table) {
    for (const auto& row : rows_) {
      std::string line = texts[0];
      for (size_t i = 0; i < wanted.size(); ++i) line += Printable(row[wanted[i]]) + texts[i + 1];
      std::puts(line.c_str());
    }
    return {};
  }
  const auto cells = [&wanted](const std::vector<std::string>& row) {
    std::vector<std::string> some;
    for (const size_t i : wanted) some.push_back(row[i]);
    return some;
  };
  std::vector<std::string> heading = cells(fields_);
  for (std::string& title : heading) title = Heading(title);
  Table out(std::move(heading));
  for (const auto& row : rows_) out.AddRow(cells(row));
  std::fputs(out.Text().c_str(), stdout);
  return {};
}

Status Columns::Print(const ListStyle& style) const {
  return Print(style.quiet ? "{{." + fields_.front() + "}}" : style.format);
}

}  // namespace atl::cli
