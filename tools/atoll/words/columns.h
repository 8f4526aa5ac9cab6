// Rows with named fields, printed as a table or as docker's --format asks for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// What docker's options of a list ask for.
struct ListStyle {
  std::string format;
  bool quiet = false;
};

// Gives `verb` -q and --format; `quiet` says what -q shows, and `example` is a format.
Verb& TakesListStyle(Verb& verb, ListStyle* style, const char* quiet, const char* example);

class Columns {
 public:
  // Fields are named as docker names them: "UsedBy", under the heading USED BY. `shown` are the
  // table's; `others` can be asked for, too. `also` are other names of them.
  explicit Columns(std::vector<std::string> shown, std::map<std::string, std::string> also = {},
                   std::vector<std::string> others = {});
  // A cell for each field, shown ones first.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // `format`: "" or "table" (the table), "table {{.ID}} …", "{{.ID}} …", "json" (a line each).
  // kInvalidArgument names a field that there is not.
  Status Print(const std::string& format) const;
  // With -q the first field alone.
  Status Print(const ListStyle& style) const;

 private:
  Result<size_t> IndexOf(std::string name) const;
  // Texts and fields by turns: text, field, text, …, text.
  Result<std::vector<std::string>> Split(const std::string& format) const;
  void PrintJson() const;

  std::vector<std::string> fields_;
  size_t shown_;
  std::map<std::string, std::string> also_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace atl::cli
