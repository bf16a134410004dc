// Writes src/api/documents.ts: the types of the API's answers, from its OpenAPI document. A test compares the hash in it.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import openapiTS, { astToString } from "openapi-typescript";

const here = import.meta.dirname;
const document = readFileSync(join(here, "../../../docs/reference/openapi.json"));
const names = { rootTypes: true, rootTypesNoSchemaPrefix: true, rootTypesKeepCasing: true };
const types = await openapiTS({ ...JSON.parse(document), paths: {} }, { ...names, exportType: true });
const hash = createHash("sha256").update(document).digest("hex");
const head = `// Made by \`make page\` from docs/reference/openapi.json, whose SHA-256 is ${hash}.\n`;
writeFileSync(join(here, "src/api/documents.ts"), head + astToString(types));
