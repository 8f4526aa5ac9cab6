// ParseConfig and the form of the config in the store: the parts of an image that become the
// environment and arguments of a process.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "images/digest.h"
#include "images/foreign_json.h"
#include "images/oci_layout.h"
#include "images/report.h"
#include "runtime/base/json_text.h"

namespace atl::images {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxStrings = 1024;
constexpr size_t kMaxString = (128 << 10) - 1;  // MAX_ARG_STRLEN without the NUL
constexpr size_t kMaxTotal = 1 << 20;
constexpr size_t kMaxUser = 256;

Result<std::vector<std::string>> Strings(const Json& object, const char* key) {
  std::vector<std::string> strings;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return strings;
  const std::string what = std::string("config: ") + key;
  if (!found->is_array()) return Fail(Code::kInvalidArgument, what + " is not an array");
  if (found->size() > kMaxStrings) {
    return Fail(Code::kInvalidArgument,
                what + " has more than " + std::to_string(kMaxStrings) + " entries");
  }
  size_t total = 0;
  for (const Json& entry : *found) {
    if (!entry.is_string()) {
      return Fail(Code::kInvalidArgument, what + " has an element that is not a string");
    }
    const std::string& text = entry.get_ref<const std::string&>();
    total += text.size();
    if (text.size() > kMaxString || total > kMaxTotal) {
      return Fail(Code::kInvalidArgument, what + " is too long");
    }
    if (text.find('\0') != std::string::npos) {
      return Fail(Code::kInvalidArgument, what + " contains a zero byte");
    }
    strings.push_back(text);
  }
  return strings;
}

Result<std::string> String(const Json& object, const char* key, size_t limit) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::string();
  const std::string what = std::string("config: ") + key;
  if (!found->is_string()) return Fail(Code::kInvalidArgument, what + " is not a string");
  const std::string& text = found->get_ref<const std::string&>();
  if (text.size() > limit) {
    return Fail(Code::kInvalidArgument,
                what + " is longer than " + std::to_string(limit) + " bytes");
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return Fail(Code::kInvalidArgument, what + " contains a control character");
    }
  }
  return text;
}

Status CheckEnv(const std::vector<std::string>& env) {
  for (const std::string& entry : env) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Fail(Code::kInvalidArgument,
                  "config: Env entry '" + Printable(entry, 80) + "' is not NAME=value");
    }
  }
  return {};
}

Status CheckWorkingDir(const std::string& directory) {
  if (directory.empty()) return {};
  const auto refuse = [&](const char* why) {
    return Fail(Code::kInvalidArgument,
                "config: WorkingDir '" + Printable(directory, 80) + "' " + why);
  };
  if (directory[0] != '/') return refuse("is not an absolute path");
  // Split by hand, because "//proc/./self" is within /proc too. A working directory of
  // /proc/self/fd/N allowed the escape of CVE-2024-21626, and no image needs one there.
  bool first = true;
  for (size_t at = 0; at < directory.size();) {
    const size_t end = std::min(directory.find('/', at), directory.size());
    const std::string_view part = std::string_view(directory).substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse("holds '..'");
    if (first && (part == "proc" || part == "sys")) return refuse("is within /proc or /sys");
    first = false;
  }
  return {};
}

// Reads only the label with facts; the other labels are for users.
Result<std::string> ReadFacts(const Json& process) {
  const auto labels = process.find("Labels");
  if (labels == process.end() || !labels->is_object()) return std::string();
  const auto facts = labels->find(kFactsLabel);
  if (facts == labels->end()) return std::string();
  if (!facts->is_string() || facts->get_ref<const std::string&>().size() > kMaxString) {
    return Fail(Code::kInvalidArgument,
                std::string("config: the label ") + kFactsLabel + " is not a text, or is too long");
  }
  return facts->get<std::string>();
}

// Nothing depends on these entries, so malformed ones are skipped and the image is accepted.
void ReadForPeople(const Json& process, ImageConfig& config) {
  size_t total = 0;
  const auto fits = [&total](const std::string& text) {
    total += text.size();
    return total <= kMaxTotal && text.find('\0') == std::string::npos;
  };
  const auto keys = [&](const char* key, std::vector<std::string>& into) {
    const auto found = process.find(key);
    if (found == process.end() || !found->is_object()) return;
    for (const auto& [name, value] : found->items()) {
      if (into.size() < kMaxStrings && fits(name)) into.push_back(name);
    }
  };
  keys("ExposedPorts", config.exposed_ports);
  keys("Volumes", config.volumes);
  if (const auto shell = process.find("Shell"); shell != process.end() && shell->is_array()) {
    for (const Json& word : *shell) {
      if (word.is_string() && config.shell.size() < kMaxStrings &&
          fits(word.get_ref<const std::string&>())) {
        config.shell.push_back(word);
      }
    }
  }
  if (const auto stop = String(process, "StopSignal", kMaxUser)) config.stop_signal = *stop;
  const auto labels = process.find("Labels");
  if (labels == process.end() || !labels->is_object()) return;
  for (const auto& [name, value] : labels->items()) {
    if (name == kFactsLabel || !value.is_string() || config.labels.size() == kMaxStrings) continue;
    if (fits(name) && fits(value.get_ref<const std::string&>())) config.labels[name] = value;
  }
}

Status ReadProcess(const Json& process, ImageConfig& config) {
  ATOLL_ASSIGN(config.env, Strings(process, "Env"));
  ATOLL_ASSIGN(config.entrypoint, Strings(process, "Entrypoint"));
  ATOLL_ASSIGN(config.cmd, Strings(process, "Cmd"));
  ATOLL_ASSIGN(config.working_dir, String(process, "WorkingDir", 4095));
  ATOLL_ASSIGN(config.user, String(process, "User", kMaxUser));
  ReadForPeople(process, config);
  ATOLL_TRY(CheckEnv(config.env));
  return CheckWorkingDir(config.working_dir);
}

Json ConfigForPeople(const ImageConfig& config) {
  Json json = Json::object();
  const auto keys = [&json](const char* key, const std::vector<std::string>& names) {
    for (const std::string& name : names) json[key][name] = Json::object();
  };
  keys("ExposedPorts", config.exposed_ports);
  keys("Volumes", config.volumes);
  if (!config.labels.empty()) json["Labels"] = config.labels;
  if (!config.shell.empty()) json["Shell"] = config.shell;
  if (!config.stop_signal.empty()) json["StopSignal"] = config.stop_signal;
  return json;
}

}  // namespace

Result<ParsedConfig> ParseConfig(std::string_view json) {
  ATOLL_ASSIGN(const Json root, ParseForeignObject(json, "config"));
  ParsedConfig parsed;
  ATOLL_ASSIGN(const std::string os, String(root, "os", 64));
  ATOLL_ASSIGN(parsed.config.architecture, String(root, "architecture", 64));
  if (os != "linux" || parsed.config.architecture != HostArchitecture()) {
    return Fail(Code::kInvalidArgument,
                "the image is for " + Printable(os) + "/" + Printable(parsed.config.architecture) +
                    ", this host runs linux/" + std::string(HostArchitecture()));
  }
  const auto process = root.find("config");
  if (process != root.end() && !process->is_null()) {
    if (!process->is_object()) return Fail(Code::kInvalidArgument, "config: not an object");
    ATOLL_TRY(ReadProcess(*process, parsed.config));
    ATOLL_ASSIGN(parsed.facts, ReadFacts(*process));
  }
  const auto rootfs = root.find("rootfs");
  if (rootfs == root.end() || !rootfs->is_object()) {
    return Fail(Code::kInvalidArgument, "config: no rootfs");
  }
  ATOLL_ASSIGN(parsed.diff_ids, Strings(*rootfs, "diff_ids"));
  for (const std::string& diff_id : parsed.diff_ids) {
    if (!IsSha256Digest(diff_id)) {
      return Fail(Code::kInvalidArgument,
                  "config: diff_id '" + Printable(diff_id, 80) + "' is not a sha256 digest");
    }
  }
  return parsed;
}

std::string EncodeImageConfig(const ImageConfig& config) {
  Json json = ConfigForPeople(config);
  json.update({{"Env", config.env},
               {"Entrypoint", config.entrypoint},
               {"Cmd", config.cmd},
               {"WorkingDir", config.working_dir},
               {"User", config.user},
               {"Architecture", config.architecture}});
  return JsonText(json);
}

Result<ImageConfig> DecodeImageConfig(std::string_view json) {
  ATOLL_ASSIGN(const Json root, ParseForeignObject(json, "config"));
  ImageConfig config;
  ATOLL_TRY(ReadProcess(root, config));
  ATOLL_ASSIGN(config.architecture, String(root, "Architecture", 64));
  return config;
}

}  // namespace atl::images
