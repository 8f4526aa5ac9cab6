#include "bench/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "bench/samples.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

Status ParseNumber(const std::string& text, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error == std::errc() && end == text.data() + text.size() && *number >= 1) return {};
  return Fail(Code::kInvalidArgument, "'" + text + "' is not a number from 1");
}

}  // namespace

Status ParseOptions(const std::vector<std::string>& arguments, const OptionTable& table) {
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const auto text = table.texts.find(arguments[i]);
    const auto number = table.numbers.find(arguments[i]);
    if (text == table.texts.end() && number == table.numbers.end()) {
      return Fail(Code::kInvalidArgument, "unknown option " + arguments[i]);
    }
    if (i + 1 == arguments.size()) {
      return Fail(Code::kInvalidArgument, arguments[i] + " lacks its value");
    }
    if (text != table.texts.end()) {
      *text->second = arguments[i + 1];
    } else {
      ATOLL_TRY(ParseNumber(arguments[i + 1], number->second));
    }
  }
  for (const std::string& name : table.required) {
    if (table.texts.at(name)->empty()) {
      return Fail(Code::kInvalidArgument, name + " is needed");
    }
  }
  return {};
}

Status WriteOutput(const std::string& path, const std::string& text) {
  if (path.empty()) return {};
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  return sys::WriteAll(file.get(), text);
}

int CannotMeasure(const Error& error) {
  std::fprintf(stderr, "bench: %s\n", error.message().c_str());
  return 2;
}

bool IsRoot() {
  if (::geteuid() == 0) return true;
  std::fprintf(stderr, "bench: run me as root\n");
  return false;
}

void Progress(const char* what) {
  static const int64_t start = NowMicros();
  const auto seconds = static_cast<double>(NowMicros() - start) / 1e6;
  std::fprintf(stderr, "bench: %5.1f s  %s\n", seconds, what);
}

}  // namespace atl::bench
