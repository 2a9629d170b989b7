// The declarations of pjrt/api.hpp keep the sizes and offsets of PJRT's header 0.114, which a plug-in's compiler saw.
// The numbers were printed from that header by a C program.
#include <troupe/pjrt/api.hpp>

#include <gtest/gtest.h>

namespace troupe::pjrt::c {
namespace {

TEST(PjrtApi, StructsHaveTheSizesOfTheHeader) {
  EXPECT_EQ(sizeof(Api), kFirstFunction);
  EXPECT_EQ(sizeof(ErrorMessage), 40U);
  EXPECT_EQ(sizeof(ErrorGetCode), 32U);
  EXPECT_EQ(sizeof(NamedValue), 56U);
  EXPECT_EQ(sizeof(EventIsReady), 32U);
  EXPECT_EQ(sizeof(ClientCreate), 88U);
  EXPECT_EQ(sizeof(ClientCompile), 56U);
  EXPECT_EQ(sizeof(ClientBufferFromHostBuffer), 120U);
  EXPECT_EQ(sizeof(ClientCreateViewOfDeviceBuffer), 112U);
  EXPECT_EQ(sizeof(DeviceMemoryStats), 208U);
  EXPECT_EQ(sizeof(LoadedExecutableExecute), 80U);
  EXPECT_EQ(sizeof(ExecuteOptions), 144U);
  EXPECT_EQ(sizeof(ExecutableDeserializeAndLoad), 72U);
  EXPECT_EQ(sizeof(ExecutableGetCompiledMemoryStats), 144U);
  EXPECT_EQ(sizeof(ExecutableSerialize), 56U);
  EXPECT_EQ(sizeof(Compile), 64U);
  EXPECT_EQ(sizeof(TopologyDescriptionCreate), 56U);
  EXPECT_EQ(sizeof(BufferCopyRawToHost), 56U);
  EXPECT_EQ(sizeof(BufferToHostBuffer), 56U);
  EXPECT_EQ(sizeof(Program), 48U);
}

TEST(PjrtApi, FieldsLieWhereTheHeaderHasThem) {
  EXPECT_EQ(offsetof(Api, major), 32U);
  EXPECT_EQ(offsetof(NamedValue, value), 40U);
  EXPECT_EQ(offsetof(NamedValue, value_size), 48U);
  EXPECT_EQ(offsetof(ClientCreate, client), 64U);
  EXPECT_EQ(offsetof(ClientBufferFromHostBuffer, device), 80U);
  EXPECT_EQ(offsetof(ClientBufferFromHostBuffer, buffer), 112U);
  EXPECT_EQ(offsetof(ClientCreateViewOfDeviceBuffer, device), 64U);
  EXPECT_EQ(offsetof(ClientCreateViewOfDeviceBuffer, buffer), 96U);
  EXPECT_EQ(offsetof(ExecuteOptions, not_donated), 56U);
  EXPECT_EQ(offsetof(ExecuteOptions, call_location), 80U);
  EXPECT_EQ(offsetof(ExecuteOptions, output_callback_count), 136U);
  EXPECT_EQ(offsetof(LoadedExecutableExecute, device), 72U);
  EXPECT_EQ(offsetof(DeviceMemoryStats, bytes_limit), 80U);
  EXPECT_EQ(offsetof(DeviceMemoryStats, peak_allocated), 192U);
  EXPECT_EQ(offsetof(ExecutableGetCompiledMemoryStats, peak), 104U);
}

TEST(PjrtApi, StructsSayTheirSize) {
  EXPECT_EQ(ErrorMessage().head.struct_size, sizeof(ErrorMessage));
  EXPECT_EQ(ExecuteOptions().head.struct_size, sizeof(ExecuteOptions));
}

}  // namespace
}  // namespace troupe::pjrt::c
