#include "runtime/spawner/memory/dm_crypt.h"

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "runtime/base/sys.h"

namespace atl::spawner {
namespace {

constexpr const char* kMapperControl = "/dev/mapper/control";
constexpr size_t kSector = 512;
constexpr size_t kKeyBytes = 64;  // XTS takes two keys of AES-256
constexpr size_t kBuffer = 4096;

// The header of one call, and the data behind it.
class Call {
 public:
  explicit Call(const std::string& name) : buffer_(kBuffer) {
    dm_ioctl& head = Head();
    head.version[0] = DM_VERSION_MAJOR;
    head.data_size = static_cast<uint32_t>(buffer_.size());
    head.data_start = sizeof(dm_ioctl);
    name.copy(head.name, sizeof head.name - 1);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { ::explicit_bzero(buffer_.data(), buffer_.size()); }

  dm_ioctl& Head() { return *reinterpret_cast<dm_ioctl*>(buffer_.data()); }
  char* Data() { return buffer_.data() + sizeof(dm_ioctl); }
  size_t Room() const { return buffer_.size() - sizeof(dm_ioctl); }
  // `what` and the name are for the error message.
  Status Ask(int control, unsigned long request, const char* what) {
    const std::string name = Head().name;
    if (::ioctl(control, request, buffer_.data()) == 0) return {};
    return FailSys(std::string(what) + " " + name);
  }

 private:
  std::vector<char> buffer_;
};

Result<UniqueFd> OpenControl() {
  auto control = sys::Open(kMapperControl, O_RDWR);
  if (control) return control;
  return Fail(std::move(control).error().Wrap(
      "no device mapper (load the modules: modprobe dm_mod && modprobe dm_crypt)"));
}

// Removes the device at once if nobody has it open.
Status RemoveWhenClosed(int control, const std::string& name) {
  Call remove(name);
  remove.Head().flags = DM_DEFERRED_REMOVE;
  return remove.Ask(control, DM_DEV_REMOVE, "DM_DEV_REMOVE");
}

std::string Hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    text.push_back(kDigits[static_cast<unsigned char>(byte) >> 4]);
    text.push_back(kDigits[static_cast<unsigned char>(byte) & 15]);
  }
  return text;
}

// Loads a table of one target: `below` from its first sector to `bytes`. Wipes the copies of the
// key.
Status LoadTable(int control, const std::string& name, const std::string& below, uint64_t bytes) {
  Call load(name);
  load.Head().target_count = 1;
  // The kernel then wipes its copy of this buffer too.
  load.Head().flags = DM_SECURE_DATA_FLAG;
  std::string key = sys::RandomBytes(kKeyBytes);
  std::string text = Hex(key);
  // dm-crypt.rst: cipher, key, offset of the IV, device, its offset. The device has no queues of
  // its own, because somebody waits for each page that is written, and one more thread makes it
  // later.
  const std::string tail = " 0 " + below + " 0 2 no_read_workqueue no_write_workqueue";
  const std::string head = "aes-xts-plain64 ";
  Status loaded;
  if (sizeof(dm_target_spec) + head.size() + text.size() + tail.size() + 1 > load.Room()) {
    loaded = Fail(Code::kInvalidArgument, "the path " + below + " is too long");
  } else {
    auto* const spec = reinterpret_cast<dm_target_spec*>(load.Data());
    spec->length = bytes / kSector;
    constexpr std::string_view kCrypt = "crypt";
    kCrypt.copy(spec->target_type, sizeof spec->target_type - 1);
    char* at = load.Data() + sizeof *spec;
    at += head.copy(at, head.size());
    at += text.copy(at, text.size());
    at += tail.copy(at, tail.size());
    *at = '\0';
    loaded = load.Ask(control, DM_TABLE_LOAD, "DM_TABLE_LOAD crypt");
  }
  ::explicit_bzero(key.data(), key.size());
  ::explicit_bzero(text.data(), text.size());
  return loaded;
}

}  // namespace

Status FindDmCrypt() {
  ATOLL_ASSIGN(const UniqueFd control, OpenControl());
  Call version("crypt");
  const Status found = version.Ask(control.get(), DM_GET_TARGET_VERSION, "DM_GET_TARGET_VERSION");
  if (found) return {};
  return Fail(Code::kUnavailable,
              "this kernel has no dm-crypt (load the module: modprobe dm_crypt): " +
                  found.error().message());
}

Result<std::string> MakeDmCrypt(const std::string& name, const std::string& below, uint64_t bytes) {
  ATOLL_ASSIGN(const UniqueFd control, OpenControl());
  Call create(name);
  ATOLL_TRY(create.Ask(control.get(), DM_DEV_CREATE, "DM_DEV_CREATE"));
  const std::string path = "/dev/dm-" + std::to_string(minor(create.Head().dev));
  Status made = LoadTable(control.get(), name, below, bytes);
  // Makes the loaded table the device's.
  if (made) made = Call(name).Ask(control.get(), DM_DEV_SUSPEND, "DM_DEV_SUSPEND (resume)");
  if (made) return path;
  [[maybe_unused]] const Status removed = RemoveDmCrypt(name);
  return Fail(std::move(made).error());
}

Status RemoveDmCrypt(const std::string& name) {
  const auto control = sys::Open(kMapperControl, O_RDWR);
  // Without the module there is no device.
  if (!control && control.error().code() == Code::kNotFound) return {};
  if (!control) return Fail(control.error());
  Status removed = RemoveWhenClosed(control->get(), name);
  if (!removed && removed.error().error_number() == ENXIO) return {};
  return removed;
}

}  // namespace atl::spawner
