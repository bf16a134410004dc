// What goes to the worker that lays a graph out, and what comes back.

export interface Box {
  id: string;
  width: number;
  height: number;
}

export interface LayoutAsked {
  key: number;
  boxes: Box[];
  edges: [string, string][];
}

export interface LayoutMade {
  key: number;
  width: number;
  height: number;
  at: Record<string, { x: number; y: number }>;
  paths: { x: number; y: number }[][];
}
