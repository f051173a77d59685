//! Widths of the columns of a table on a terminal: those with the fewest wrapped rows.

/// Rows that decide; a longer table is like its beginning.
const ROWS_MAX: usize = 300;

/// Narrowest column that cells fold in.
const WIDTH_MIN: usize = 4;

/// Number of wrapped rows as which a wrapped header counts, because headers are read first.
const HEADER_WEIGHT: usize = 3;

/// Number of columns between two cells.
pub(super) const GAP: usize = 2;

/// Characters of each column of a table that is at most `width` wide; none if all cells fit
/// without a fold.
pub(super) fn fitting(header: &[&str], rows: &[Vec<String>], width: usize) -> Option<Vec<usize>> {
    let of_row = |row: &Vec<String>| row.iter().map(|cell| cell.chars().count()).collect();
    let header: Vec<usize> = header.iter().map(|name| name.chars().count()).collect();
    let all = rows.iter().map(of_row);
    let whole = all.fold(header.clone(), |widest, row: Vec<usize>| {
        widest.iter().enumerate().map(|(at, most)| row.get(at).copied().unwrap_or(0).max(*most)).collect()
    });
    let gaps = GAP * header.len();
    if whole.iter().sum::<usize>() + gaps <= width {
        return None;
    }
    let sample: Vec<Vec<usize>> = rows.iter().take(ROWS_MAX).map(of_row).collect();
    let mut widths: Vec<usize> = whole.into_iter().map(|most| most.min(width)).collect();
    while widths.iter().sum::<usize>() + gaps > width {
        let narrowed = |at: usize| {
            let mut widths = widths.clone();
            widths[at] -= 1;
            widths
        };
        let wide = (0..header.len()).filter(|at| widths[*at] > WIDTH_MIN);
        // The widest one of those whose rows fold least.
        let cost = |at: &usize| (lines(&header, &sample, &narrowed(*at)), usize::MAX - widths[*at]);
        let at = wide.min_by_key(cost)?;
        widths[at] -= 1;
    }
    Some(widths)
}

/// Lines of all rows with these widths.
fn lines(header: &[usize], rows: &[Vec<usize>], widths: &[usize]) -> usize {
    let of_row = |row: &[usize]| {
        let of_cell = |(cell, width): (&usize, &usize)| cell.div_ceil((*width).max(1));
        row.iter().zip(widths).map(of_cell).max().unwrap_or(1)
    };
    HEADER_WEIGHT * of_row(header) + rows.iter().map(|row| of_row(row)).sum::<usize>()
}

#[cfg(test)]
mod tests;
