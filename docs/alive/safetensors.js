// Reads and writes safetensors files in Node: the length of the header, 8 bytes, the lowest first; the header, JSON;
// the numbers.  A tensor is {shape, data: array of numbers}; what is wrong with a file is thrown.
"use strict";

const fs = require("fs");

const READ = {
  F64: [8, (bytes, at) => bytes.readDoubleLE(at)],
  F32: [4, (bytes, at) => bytes.readFloatLE(at)],
  I64: [8, (bytes, at) => Number(bytes.readBigInt64LE(at))],
  BOOL: [1, (bytes, at) => bytes.readUInt8(at)],
};

// {metadata, tensors: name -> tensor}
function read(path) {
  const file = fs.readFileSync(path);
  const start = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString("utf8", 8, start));
  const metadata = header.__metadata__ || {};
  delete header.__metadata__;
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)) {
    if (!READ[dtype]) {
      throw new Error(name + " is " + dtype + "; allowed: " + Object.keys(READ).join(", "));
    }
    const [size, number] = READ[dtype];
    const count = shape.reduce((product, length) => product * length, 1);
    if (to - from !== size * count || start + to > file.length) {
      throw new Error(name + ": data_offsets are " + from + " and " + to + "; allowed: " + size * count + " apart");
    }
    const data = Array.from({ length: count }, (_, k) => number(file, start + from + size * k));
    tensors[name] = { shape: shape, data: data };
  }
  return { metadata: metadata, tensors: tensors };
}

// Float64, or Float32 where `dtype` says so.
function write(path, tensors, dtype) {
  const size = dtype === "float32" ? 4 : 8;
  const header = {};
  let end = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype: "F" + 8 * size, shape: shape, data_offsets: [end, end + size * data.length] };
    end += size * data.length;
  }
  const plain = JSON.stringify(header);
  const json = plain.padEnd(8 * Math.ceil(plain.length / 8)); // so that the numbers are aligned
  const file = Buffer.alloc(8 + json.length + end);
  file.writeBigUInt64LE(BigInt(json.length), 0);
  file.write(json, 8);
  let at = 8 + json.length;
  for (const { data } of Object.values(tensors)) {
    for (const number of data) {
      at = size === 4 ? file.writeFloatLE(number, at) : file.writeDoubleLE(number, at);
    }
  }
  fs.writeFileSync(path, file);
}

module.exports = { read, write };
