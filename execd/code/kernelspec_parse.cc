#include <algorithm>
#include <iterator>

#include "execd/code/kernelspec.h"
#include "execd/http/request_json.h"

namespace atl::execd {
namespace {

// Kernels that support "ipc", by the Python module that starts them: every release of ipykernel,
// and kernels based on it.
constexpr std::string_view kIpcModules[] = {"ipykernel_launcher", "ipykernel", "bash_kernel"};

bool IsIpcModule(const std::vector<std::string>& argv) {
  const auto option = std::find(argv.begin(), argv.end(), "-m");
  return option != argv.end() && option + 1 != argv.end() &&
         std::find(std::begin(kIpcModules), std::end(kIpcModules), option[1]) !=
             std::end(kIpcModules);
}

}  // namespace

Result<Kernelspec> ParseKernelspec(std::string text) {
  ATOLL_ASSIGN(const JsonDocument document, ParseObject(std::move(text), false));
  const JsonValue root = document.root();
  Kernelspec spec;
  ATOLL_ASSIGN(spec.language, TextMember(root, "language"));
  const JsonValue argv = root.Find("argv");
  const JsonValue first = argv.is(JsonType::kArray) ? argv.first() : JsonValue();
  for (JsonValue word = first; word.present(); word = word.next()) {
    if (!word.is(JsonType::kString) || word.text().find('\0') != std::string_view::npos) {
      return Fail(Code::kInvalidArgument, "argv: every item must be a string without NUL");
    }
    spec.argv.emplace_back(word.text());
  }
  if (spec.argv.empty() || spec.argv[0].empty() || spec.language.empty()) {
    return Fail(Code::kInvalidArgument, "argv or language is missing");
  }
  const JsonValue env = root.Find("env");
  const JsonValue variable = env.is(JsonType::kObject) ? env.first() : JsonValue();
  for (JsonValue each = variable; each.present(); each = each.next()) {
    const std::string_view name = each.name(), value = each.text();
    if (name.empty() || name.find('=') != std::string_view::npos ||
        name.find('\0') != std::string_view::npos || value.find('\0') != std::string_view::npos) {
      return Fail(
          Code::kInvalidArgument,
          "env '" + std::string(name.substr(0, 64)) +
              "': a name must not be empty or contain '='; names and values must not contain NUL");
    }
    spec.env.emplace_back(name, value);
  }
  spec.interrupt_by_message = root.Find("interrupt_mode").text() == "message";
  spec.knows_ipc =
      root.Find("metadata").Find("transport").text() == "ipc" || IsIpcModule(spec.argv);
  return spec;
}

}  // namespace atl::execd
