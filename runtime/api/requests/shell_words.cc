#include "runtime/api/requests/shell_words.h"

namespace atl::api {

bool SplitShellWords(std::string_view line, std::vector<std::string>* words) {
  std::string word;
  bool in_word = false;
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\'') {
      if (c == quote) {
        quote = '\0';
      } else {
        word.push_back(c);
      }
    } else if (c == '\\') {
      if (++i == line.size()) return false;
      // A backslash within double quotes is special only before these (POSIX XCU 2.2.3).
      if (quote == '"' && line[i] != '"' && line[i] != '\\' && line[i] != '$' && line[i] != '`') {
        word.push_back('\\');
      }
      word.push_back(line[i]);
      in_word = true;
    } else if (quote == '"') {
      if (c == quote) {
        quote = '\0';
      } else {
        word.push_back(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (in_word) words->push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word.push_back(c);
      in_word = true;
    }
  }
  if (quote != '\0') return false;
  if (in_word) words->push_back(std::move(word));
  return true;
}

}  // namespace atl::api
