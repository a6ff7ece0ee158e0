// Colours of what is drawn on the canvas, by the preference of the user.

export interface Theme {
  water: string;
  land: string;
  coast: string;
  border: string;
  road: string;
  building: string;
  label: string;
  halo: string;
  point: [number, number, number];
  selected: [number, number, number];
  zone: [number, number, number];
  /** From few objects to many. */
  density: [number, number, number][];
}

const light: Theme = {
  water: "#dbe6ee",
  land: "#f5f4f0",
  coast: "#9fb2c0",
  border: "#c9c6bd",
  road: "#dcd8cd",
  building: "#e8e5dc",
  label: "#6d7a85",
  halo: "#f5f4f0",
  point: [0.1, 0.4, 0.75],
  selected: [0.85, 0.25, 0.1],
  zone: [163, 90, 0],
  density: [
    [198, 219, 239],
    [107, 174, 214],
    [33, 113, 181],
    [8, 48, 107],
  ],
};

const dark: Theme = {
  water: "#10161b",
  land: "#1c242b",
  coast: "#3d4d5a",
  border: "#323e48",
  road: "#2b3640",
  building: "#222c34",
  label: "#8494a1",
  halo: "#10161b",
  point: [0.38, 0.72, 1],
  selected: [1, 0.6, 0.3],
  zone: [240, 169, 74],
  density: [
    [26, 52, 84],
    [32, 94, 153],
    [74, 160, 226],
    [196, 230, 255],
  ],
};

const preference = window.matchMedia("(prefers-color-scheme: dark)");

export function currentTheme(): Theme {
  return preference.matches ? dark : light;
}

export function onThemeChange(changed: () => void): void {
  preference.addEventListener("change", changed);
}
