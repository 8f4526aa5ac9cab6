#include "tools/atoll/archives/kernel_package.h"

#include <gtest/gtest.h>

#include <cstring>

namespace atl::cli {
namespace {

// A bzImage with two sectors of set-up code in front of what the payload's offset counts from.
std::string Image(const std::string& payload, uint32_t length) {
  constexpr uint32_t kOffset = 64;
  std::string image(size_t{3} * 512 + kOffset, '\0');
  image[0x1f1] = 2;
  image.replace(0x202, 4, "HdrS");
  std::memcpy(&image[0x248], &kOffset, sizeof kOffset);
  std::memcpy(&image[0x24c], &length, sizeof length);
  return image + payload + "behind";
}
std::string Image(const std::string& payload) {
  return Image(payload, static_cast<uint32_t>(payload.size()));
}

TEST(KernelPackage, FindsThePayloadAndItsForm) {
  const struct {
    std::string magic, program;
    size_t tail;
  } kForms[] = {{"\x02\x21\x4c\x18", "lz4", 4},
                {"\x28\xb5\x2f\xfd", "zstd", 4},
                {std::string("\xfd") + "7zXZ", "xz", 4},
                {"\x1f\x8b\x08", "gzip", 0}};
  for (const auto& form : kForms) {
    const std::string image = Image(form.magic + "contentsize");
    const auto payload = PayloadOf(image);
    ASSERT_TRUE(payload) << form.program;
    EXPECT_EQ(payload->program, form.program);
    const std::string whole = form.magic + "contentsize";
    EXPECT_EQ(payload->bytes, whole.substr(0, whole.size() - form.tail));
  }
}

TEST(KernelPackage, RefusesWhatIsNoKernel) {
  EXPECT_FALSE(PayloadOf(""));
  EXPECT_FALSE(PayloadOf(std::string(4096, 'x')));
  EXPECT_FALSE(PayloadOf(Image("plain bytes")));
  EXPECT_FALSE(PayloadOf(Image("\x02\x21\x4c\x18", 4)));
  EXPECT_FALSE(PayloadOf(Image("\x02\x21\x4c\x18 and more", 4096)));
  EXPECT_FALSE(PayloadOf(Image("\x02\x21\x4c\x18 and more").substr(0, 0x210)));
}

TEST(KernelPackage, ReadsAModulesDescription) {
  const std::string module(
      "\x7f"
      "ELF\0license=GPL\0depends=virtio,vsock\0softdepends=no\0",
      54);
  EXPECT_EQ(ModuleInfo(module, "depends"), "virtio,vsock");
  EXPECT_EQ(ModuleInfo(module, "license"), "GPL");
  EXPECT_EQ(ModuleInfo(module, "end"), "");
  EXPECT_EQ(ModuleInfo("", "depends"), "");
}

}  // namespace
}  // namespace atl::cli
