// Rows with named fields, printed as a table or in docker's --format.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// The options that docker gives its lists.
struct ListStyle {
  std::string format;
  bool quiet = false;
};

// Adds -q and --format to `verb`. `quiet` says what -q prints; `example` is an example format.
Verb& TakesListStyle(Verb& verb, ListStyle* style, const char* quiet, const char* example);

class Columns {
 public:
  // Fields have docker's names: "UsedBy", with the heading USED BY. The table shows `shown`;
  // formats may also use `others`. `also` maps alternative names to fields.
  explicit Columns(std::vector<std::string> shown, std::map<std::string, std::string> also = {},
                   std::vector<std::string> others = {});
  // Adds one cell for each field, shown fields first.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // `format` is "" or "table" (the table), "table {{.ID}} …", "{{.ID}} …", or "json" (one object a
  // line). kInvalidArgument names an unknown field.
  Status Print(const std::string& format) const;
  // Prints in that style; -q prints the first field only.
  Status Print(const ListStyle& style) const;

 private:
  Result<size_t> IndexOf(std::string name) const;
  // Splits a format into alternate texts and fields: text, field, text, …, text.
  Result<std::vector<std::string>> Split(const std::string& format) const;
  void PrintJson() const;

  std::vector<std::string> fields_;
  size_t shown_;
  std::map<std::string, std::string> also_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace atl::cli
