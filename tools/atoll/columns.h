// Rows with named fields, printed as a table or as docker's --format asks for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::cli {

class Columns {
 public:
  // `shown` are the table's; `others` can be asked for, too. `also` are other names of them.
  Columns(std::vector<std::string> shown, std::map<std::string, std::string> also,
          std::vector<std::string> others);
  // A cell for each field, shown ones first.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // `format`: "" (the table), "table {{.ID}} …", "{{.ID}} …", "json".
  // kInvalidArgument names a field that there is not.
  Status Print(const std::string& format) const;

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
