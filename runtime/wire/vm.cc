#include "runtime/wire/vm.h"

#include <algorithm>

namespace atl::wire::vm {
namespace {

constexpr size_t kMaxTag = 36;  // the limit of virtiofs
constexpr size_t kMaxHostname = 64;
constexpr size_t kMaxPath = 4095;
constexpr size_t kMaxName = 255;
constexpr uint32_t kMinMtu = 576, kMaxMtu = 65535;
constexpr uint64_t kMostNofile = 1 << 20;  // fs.nr_open of the guest

bool Has(std::string_view text, char c) {
  return text.find(c) != std::string_view::npos;
}

bool IsLowerName(std::string_view text, size_t most) {
  return text.size() <= most && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

bool IsAddress(const AddressBytes& address) {
  return address.size() == 4 || address.size() == 16;
}

bool IsMac(std::string_view mac) {
  return mac.size() == 6;
}

// Absolute, without an empty, a "." or a ".." component.
bool IsPath(std::string_view path) {
  if (path.empty() || path.size() > kMaxPath || path[0] != '/' || Has(path, '\0')) return false;
  if (path == "/") return true;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at + 1), path.size());
    const std::string_view name = path.substr(at + 1, end - at - 1);
    if (name.empty() || name == "." || name == ".." || name.size() > kMaxName) return false;
    at = end;
  }
  return true;
}

// One component, or none.
bool IsName(std::string_view name) {
  return name.size() <= kMaxName && name != "." && name != ".." && !Has(name, '/') &&
         !Has(name, '\0');
}

bool IsShare(const Share& share, bool root) {
  return !share.tag.empty() && IsLowerName(share.tag, kMaxTag) && IsName(share.directory) &&
         IsPath(share.target) && (share.target == "/") == root;
}

bool IsSound(const Go& go) {
  if (go.hostname.empty() || !IsLowerName(go.hostname, kMaxHostname) || !IsShare(go.root, true) ||
      go.sessions.empty() || !IsName(go.sessions) || go.nofile > kMostNofile) {
    return false;
  }
  const bool linked = !go.mac.empty();
  if (linked ? !IsMac(go.mac) || go.mtu < kMinMtu || go.mtu > kMaxMtu
             : go.mtu != 0 || !go.addresses.empty() || !go.gateways.empty() ||
                   !go.neighbours.empty()) {
    return false;
  }
  return std::all_of(go.addresses.begin(), go.addresses.end(), IsAddress) &&
         std::all_of(go.gateways.begin(), go.gateways.end(), IsAddress) &&
         std::all_of(go.neighbours.begin(), go.neighbours.end(),
                     [](const Neighbour& neighbour) {
                       return IsAddress(neighbour.address) && IsMac(neighbour.mac);
                     }) &&
         std::all_of(go.shares.begin(), go.shares.end(),
                     [](const Share& share) { return IsShare(share, false); });
}

bool IsSound(const Sync&) {
  return true;
}
bool IsSound(const Stop&) {
  return true;
}
bool IsSound(const Ready&) {
  return true;
}
bool IsSound(const Synced&) {
  return true;
}
bool IsSound(const Ended& ended) {
  return ended.exit_code <= 255;
}
bool IsSound(const Failed& failed) {
  return failed.message.size() <= kMaxFailure;
}

template <typename Message>
Result<Message> Decode(std::string_view bytes, std::string_view direction) {
  Message message;
  if (bytes.size() > kMaxFrame || !DecodeFields(bytes, &message) ||
      !std::visit([](const auto& one) { return IsSound(one); }, message)) {
    return Fail(Code::kInvalidArgument,
                "message " + std::string(direction) + " the virtual machine: malformed");
  }
  return message;
}

}  // namespace

std::string EncodeToGuest(const ToGuest& message) {
  return Frame(EncodeFields(message));
}

std::string EncodeFromGuest(const FromGuest& message) {
  if (const auto* failed = std::get_if<Failed>(&message)) {
    return Frame(EncodeFields(FromGuest(Failed{failed->message.substr(0, kMaxFailure)})));
  }
  return Frame(EncodeFields(message));
}

Result<ToGuest> DecodeToGuest(std::string_view bytes) {
  return Decode<ToGuest>(bytes, "to");
}

Result<FromGuest> DecodeFromGuest(std::string_view bytes) {
  return Decode<FromGuest>(bytes, "from");
}

}  // namespace atl::wire::vm
